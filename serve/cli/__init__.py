"""The command line. ``main`` is the console script ``veridical``.

Importing it must stay quick (``veridical --help``), so every command imports what it needs when it
runs.
"""

from serve.cli.app import main

__all__ = ["main"]
