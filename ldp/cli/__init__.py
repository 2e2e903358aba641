"""The `ldp` command: one file a command, loaded when it is called.

Every mistake of a user ends as one line on stderr and exit status 2.
"""

import gc
import os
import re
import sys
import traceback
import warnings
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path

import click

from ldp import __version__
from ldp.cli.outputs import guarded
from ldp.cli.parsing import CommandGroup, make_lenient
from ldp.errors import LdpError, MissingPackage, RegistryError

_COMMANDS = (
    *("demo", "try", "init", "registry", "explain", "plan", "compare"),
    *("regress", "central", "amplify", "attack", "audit"),
    *("simulate", "aggregate", "merge", "table", "decode", "publish", "report", "rappor"),
    *("collect", "relay", "key", "device"),
)
"""Names of commands. The command NAME is the function NAME_command in the file NAME.py."""
_FILES = {"try": "trial"}
"""Names of files for commands whose names are keywords of Python."""
_LOADED: dict[str, click.Command] = {}


class _Commands(CommandGroup):
    def list_commands(self, context: click.Context) -> list[str]:
        return list(_COMMANDS)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with the first sentence of each, read from the files as text: loading
        all of them takes a second."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _first_sentence(name)) for name in _COMMANDS])

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        if name not in _LOADED:
            file = _FILES.get(name, name)
            command = getattr(import_module(f"ldp.cli.{file}"), f"{file}_command")
            _LOADED[name] = make_lenient(guarded(name, command))
        return _LOADED[name]


def _first_sentence(name: str) -> str:
    file = _FILES.get(name, name)
    text = Path(__file__).with_name(f"{file}.py").read_text("utf-8")
    documented = re.search(rf'^def {file}_command\(.*?"""(.*?)"""', text, re.DOTALL | re.MULTILINE)
    sentence = (documented[1] if documented else "").split(".\n")[0].split(". ")[0]
    return " ".join(sentence.rstrip(".").split())


@click.command(
    cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "show_default": True}
)
@click.version_option(__version__, prog_name="ldp")
def commands() -> None:
    """Collect and study telemetry under local differential privacy.

    \b
    Try it:      ldp demo
    Begin:       ldp init --dev
    Simulate:    ldp simulate city --registry metrics.toml --population city.csv --reports store
    Aggregate:   ldp aggregate city --registry metrics.toml store --out city.table
    Decode:      ldp decode city.table --out estimates.csv
    Look:        ldp report estimates.csv --out report.html
    """


def main() -> None:
    """Run the command line. Exits with status 0, or with 2 and one line on stderr. Characters that
    a stream cannot print are escaped."""
    sys.stdout, sys.stderr = (
        open(os.devnull, "w") if stream is None else stream  # noqa: SIM115  # it is closed
        for stream in (sys.stdout, sys.stderr)
    )
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    warnings.showwarning = lambda message, *_: click.echo(f"ldp: {message}", err=True)
    # rows of a table hold no cycles, and to look for them takes a third
    gc.set_threshold(50_000)
    try:
        try:
            commands.main(standalone_mode=False)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message())
    except RegistryError as error:
        _fail(*str(error).splitlines())
    except LdpError as error:
        _fail(str(error))
    except ModuleNotFoundError as error:
        if (error.name or "ldp").split(".")[0] == "ldp" or os.environ.get("LDP_DEBUG"):
            raise
        _fail(str(MissingPackage.of("this command", error.name, "server")))
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        where = f" (see {context.command_path} --help)" if context else ""
        _fail(error.format_message().rstrip(".") + where)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        _fail(f"{error.filename or 'input or output'}: {error.strerror or error}")
    except UnicodeEncodeError as error:  # bytes of the command line or the terminal
        _fail(f"a text is not UTF-8: {error.object[: error.end][-20:]!r}")
    except MemoryError:
        _fail("not enough memory for a table of this size")
    except Exception as error:  # ours: a traceback on demand
        if "\nKeyboardInterrupt\n" in traceback.format_exc():  # as a SystemError
            sys.exit(130)
        if os.environ.get("LDP_DEBUG"):
            raise
        _fail(f"internal error ({type(error).__name__}); LDP_DEBUG=1 shows where")


def _fail(*lines: str) -> None:
    for line in lines:
        print(f"ldp: {' '.join(line.split())}", file=sys.stderr)
    sys.exit(2)
