"""`ldp` and `python -m ldp`: hands over to `ldp.cli`, or says which extra is missing."""

import sys


def main() -> None:
    try:
        from ldp.cli import main as command_line
    except ModuleNotFoundError as missing:
        if (missing.name or "").split(".")[0] == "ldp":
            raise
        sys.exit(
            f"ldp: the command line needs {missing.name!r}: pip install 'ldp-telemetry[server]'"
        )
    command_line()


if __name__ == "__main__":
    main()
