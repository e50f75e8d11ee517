"""Ray: who runs where, for how long, and what happens when it dies.

An actor here is a shell of a few lines over a plain class that is tested without Ray. Each file
has the shell, one factory that gathers its options, and a typed client that turns the handle into a
port of the pipeline, so that no phase ever sees a handle.
"""
