"""Entry of `ldp` and `python -m ldp`: runs `ldp.cli`, or says which extra is missing."""

import sys

from ldp.errors import MissingPackage


def main() -> None:
    """Run the command line. Exits with a message of one line if a package is missing."""
    try:
        from ldp.cli import main as command_line
    except ModuleNotFoundError as missing:
        if (missing.name or "").split(".")[0] == "ldp":
            raise
        sys.exit(f"ldp: {MissingPackage.of('the command line', missing.name, 'cli')}")
    command_line()


if __name__ == "__main__":
    main()
