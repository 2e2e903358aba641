"""Settings of a service: options of its command, which can all stand in a TOML file, too.

The help shows the usual options; docs/commands.md lists all of them.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ldp.cli.options import FILE
from ldp.cli.parsing import SHARE
from ldp.errors import ParameterError, errors_in
from ldp.protocol.keys import DAY, FLAG, TEXT, Form, Key, read_keys, several
from ldp.protocol.strict_json import read_toml, shortened

_FORMS = {
    click.types.IntParamType: Form("a whole number", (int,)),
    click.types.FloatParamType: Form("a number", (int, float)),
    click.DateTime: DAY._replace(read=str),
}
"""Forms of values by the types of options; other types read texts."""


def rare(name: str, kind: Any, default: Any, words: str, **others: Any) -> Callable[..., Any]:
    """Return a decorator that adds an option which only docs/commands.md lists, not the help. The
    option has several values if `default` is ()."""
    settings: Any = {"type": kind, "default": default, "multiple": default == (), "help": words}
    return click.option(name, hidden=True, **settings, **others)


def setting_name(option: click.Parameter) -> str:
    """Return the key of an option in the file of --config: its long name with underscores."""
    return option.opts[0].removeprefix("--").replace("-", "_")


def _form(option: click.Parameter) -> Form:
    if getattr(option, "is_flag", False):
        return FLAG
    if option.multiple:
        return several(TEXT, "a list of texts")
    if option.type is SHARE:
        return Form('a share such as "1%" or 0.01', (int, float, str), read=str)
    return next((form for kind, form in _FORMS.items() if isinstance(option.type, kind)), TEXT)


def _read(context: click.Context, _: click.Parameter, path: Path | None) -> None:
    """Make the settings of a file the defaults of the options. Raise ParameterError with the file,
    the key, its value and the remedy."""
    options = {setting_name(option): option for option in context.command.params}
    del options["config"]
    section, context.obj = read_toml(path, ParameterError) if path else {}, path
    with errors_in(str(path)):
        values = read_keys(section, {name: Key(_form(o), "", None) for name, o in options.items()})
        for name in section:
            try:
                options[name].type_cast_value(context, values[name])
            except click.BadParameter as error:
                value = shortened(section[name])
                raise ParameterError(f"{name} is {value}: {error.message}") from None
        context.default_map = {str(options[name].name): values[name] for name in section}


CONFIG = click.option(
    "--config",
    type=FILE,
    is_eager=True,
    expose_value=False,
    callback=_read,
    help="TOML file of these options and of rare ones (docs/commands.md); the command line wins.",
)
