"""Entry of `ldp` and `python -m ldp`: runs `ldp.cli`, or says which extra is missing."""

import os
import sys
from collections.abc import Callable


def main() -> None:
    """Run the command line. Products of matrices take one thread, unless OPENBLAS_NUM_THREADS says
    otherwise. Exits with a message of one line if a package is missing, and without one, with
    status 130, for an interrupt."""
    # before numpy is loaded: threads that wait for each other take processor time
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        _command_line()()
    except KeyboardInterrupt:  # while modules are loaded
        sys.exit(130)


def _command_line() -> Callable[[], None]:
    try:
        from ldp.cli import main as command_line
    except ModuleNotFoundError as missing:
        from ldp.errors import MissingPackage  # late: an interrupt must find nothing to load

        if (missing.name or "").split(".")[0] == "ldp":
            raise
        sys.exit(f"ldp: {MissingPackage.of('the command line', missing.name, 'cli')}")
    return command_line


if __name__ == "__main__":
    main()
