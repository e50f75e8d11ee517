"""Connects to a Ray cluster or starts a local one, says which, and ends: ``doctor`` runs this in a
process of its own, so that a cluster that never answers can be given up on."""

from __future__ import annotations

import sys


def main() -> int:
    from actors.cluster import connected
    from pipeline.errors import VeridicalError
    from pipeline.settings import Settings

    address = sys.argv[1] if len(sys.argv) > 1 else ""
    try:
        with connected(Settings.load().home.path, address) as cluster:
            import ray

            kind = (
                "started and ended a local cluster"
                if cluster.owned
                else f"connected to {cluster.address}"
            )
            print(f"Ray {ray.__version__}: {kind}")
    except VeridicalError as error:
        print(error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
