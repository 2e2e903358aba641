"""Parsing of typed arguments: numbers as people write them, and options that do not fit."""

import re
from collections import Counter
from collections.abc import Callable
from copy import copy
from decimal import Decimal
from fractions import Fraction
from typing import Any

import click
from click.core import ParameterSource

from ldp.errors import LdpError, ParameterError
from ldp.protocol.keys import nearest

SUFFIXES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
FITTING = {
    "aggregate": (
        *("one of --out --sql", "--estimates with --sql"),
        "--sql without --engine --workers --whole --skip-damaged",
    ),
    "amplify": (
        "one of METRIC --mechanism --epsilon",
        *("METRIC with --registry", "--registry with METRIC"),
    ),
    "audit": (
        "one of METRIC --preset --client --all --verify",
        *("METRIC with --registry", "--registry with METRIC"),
        "--encoder without --report --all --verify",
    ),
    "decode": ("--rappor-map without --candidates",),
    "collect": (
        "--dev without --buffer --drain --write-small --retain --reset-watermark --shuffle-least "
        "--shuffle-longest --shuffle-smallest --sealed --relay-key --ids --rate --most-requests "
        "--most-buffer --admit --json",
        "--reset-watermark without --drain",
    ),
    "plan number": ("--population without --from",),
    "rappor import": ("one of --counts --reports",),
    "regress": (
        *("one of --epsilon --randomized", "--epsilon with --bounds", "--seed with --compare"),
        "--compare without --method --level --out",
        "--randomized without --bounds --delta --method --neighbours --compare",
        *("--feature with --randomized", "--model with --randomized", "--of with --randomized"),
        *("--weights with --randomized", "--strata with --randomized"),
        "--category with --randomized",
    ),
    "simulate": (
        *("one of METRIC --scenario", "METRIC with --population"),
        *("METRIC with --reports --table", "--reports without --table", "--day with --reports"),
        "--scenario without --population --column --users --day --table",
    ),
}
"""Rules of options: with `A with B C`, A is allowed only beside B or C; with `A without B C`, A is
allowed beside neither."""
MOST_DIGITS = 18
"""Largest number of digits to which a power of ten is written out."""
WRITTEN = re.compile(
    r"([+-]?)([0-9][0-9,_]*|(?=\.))(\.[0-9]+)?(?:e([+-]?[0-9]{1,3}))?([kmg]?)", re.I
)
GROUPED = re.compile(r"[0-9]{1,3}([,_][0-9]{3})+|[0-9]*")
"""Digits with a comma or underscore before every three, or without."""


def plain_number(text: str) -> str:
    """Return a number as programs read it, from text such as 1e6, 200k, 1.5M, 1,000,000, 1_000_000
    or 1 %. Returns any other text as it is. A decimal point stays, because 10.000 may mean ten
    thousand: it is not read as a whole number.

    >>> [plain_number(text) for text in ("1e6", "200k", "1,000", "0.5", "1,2", "1e-6", "10.000")]
    ['1000000', '200000', '1000', '0.5', '1,2', '1e-6', '10.000']
    >>> [plain_number(text) for text in ("1%", "99.5 %", ".5%", "%")]
    ['0.01', '0.995', '0.005', '%']
    """
    bare = text.strip().removesuffix("%")
    match, percent = WRITTEN.fullmatch(bare.strip()), 2 * (bare != text.strip())
    if match is None or not GROUPED.fullmatch(match[2]):
        return text
    sign, digits, fraction, exponent, suffix = match.groups(default="")
    power = int(exponent or 0) - percent
    if abs(power) > MOST_DIGITS:
        return text
    digits = re.sub("[,_]", "", digits)
    number = Decimal(f"{sign}{digits}{fraction}").scaleb(power) * SUFFIXES[suffix.lower()]
    if number == number.to_integral_value() and (exponent or suffix or not fraction):
        return f"{number:.0f}"
    return text if not (suffix or percent) and digits == match[2] else f"{number.normalize():f}"


def name_and_parameters(text: str, example: str) -> tuple[str, dict[str, Any]]:
    """Return a name and the parameters after it, written as in TOML. Raises ParameterError with an
    `example` for another text.

    >>> name_and_parameters("rr, epsilon = 1, categories = 20", "")
    ('rr', {'epsilon': 1, 'categories': 20})
    """
    import tomllib  # late: a help needs none

    name, _, parameters = text.partition(",")
    try:
        return name, tomllib.loads(f"of = {{ {parameters} }}")["of"]
    except (ValueError, RecursionError):
        raise ParameterError(f'parameters are like "{example}"') from None


class Typed(click.ParamType):  # type: ignore[type-arg]  # not subscriptable before 8.4
    """Type of an argument. `read`: function that makes the value from the text, or raises LdpError
    with the mistake. `name`: placeholder of the value in the help."""

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name, self._read = name, read

    def convert(self, value: Any, *place: Any) -> Any:
        try:
            return self._read(value) if isinstance(value, str) else value
        except LdpError as error:
            self.fail(str(error), *place)


def _share(text: str) -> Fraction:
    try:
        share = Fraction(plain_number(text))
    except (ValueError, ZeroDivisionError):
        share = Fraction(-1)
    if not 0 <= share < 1:
        raise ParameterError("must be a share such as 1% or 0.01, below 1")
    return share


SHARE = Typed("SHARE", _share)
"""A share of a whole, such as 1% or 0.01: an exact fraction."""


def make_lenient(command: click.Command) -> click.Command:
    """Return the command, changed so that it reads numbers as people write them, and raises a usage
    error for a repeated option that has one value. Its help then states where rare options are. The
    commands of a group are changed, too."""
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            make_lenient(inner)
        return command
    if any(getattr(parameter, "hidden", False) for parameter in command.params):
        command.epilog = "Rare options are in docs/commands.md."
    for parameter in command.params:
        parameter.type = _lenient(parameter.type)
    changed: Any = command
    parse = command.parse_args

    def parse_args(context: click.Context, args: list[str]) -> list[str]:
        words = list(args)
        rest = parse(context, args)
        _refuse_repeated(command, context, words)
        _refuse_unfitting(command, context)
        return rest

    changed.parse_args = parse_args
    return command


class CommandGroup(click.Group):
    """Group of commands, which for an unknown name suggests the nearest."""

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(context)
        if args and not args[0].startswith("-") and args[0] not in names:
            raise click.UsageError(f"No such command {args[0]!r}{nearest(args[0], names)}", context)
        return super().resolve_command(context, args)


def _refuse_repeated(command: click.Command, context: click.Context, words: list[str]) -> None:
    _, _, options = command.make_parser(context).parse_args(words)
    for option, times in Counter(options).items():
        is_one = isinstance(option, click.Option) and not (option.multiple or option.is_flag)
        if times > 1 and is_one:
            raise click.UsageError(f"{option.opts[-1]} is given {times} times, and takes one value")


def _refuse_unfitting(command: click.Command, context: click.Context) -> None:
    """Raise click.UsageError for parameters of the command line or of a file of settings that
    FITTING forbids together."""
    written = set[str]()
    for parameter in command.params:
        source = context.get_parameter_source(str(parameter.name))
        if source in (ParameterSource.COMMANDLINE, ParameterSource.DEFAULT_MAP):
            is_option = isinstance(parameter, click.Option)
            written.update(parameter.opts if is_option else [str(parameter.name).upper()])
    name = context.command_path.removeprefix(context.find_root().command_path).strip()
    for rule in FITTING.get(name, ()):
        first, how, *others = rule.split()
        some = [other for other in others if other in written]
        if how == "of" and len(some) != 1:
            raise click.UsageError(f"give one of {', '.join(others)}", context)
        if first in written and how == "with" and not some:
            raise click.UsageError(f"{first} goes with {' or '.join(others)}", context)
        if first in written and how == "without" and some:
            raise click.UsageError(f"{first} does not go with {', '.join(some)}", context)


def _lenient(kind: click.ParamType) -> click.ParamType:  # type: ignore[type-arg]
    """Return a type that reads numbers as people write them. Returns `kind` itself if it reads
    none."""
    if isinstance(kind, click.Tuple):
        several: Any = copy(kind)
        several.types = [_lenient(inner) for inner in kind.types]
        return several  # type: ignore[no-any-return]
    if not isinstance(kind, click.types.IntParamType | click.types.FloatParamType):
        return kind
    lenient: Any = copy(kind)
    plain: Any = copy(kind)
    of_whole = isinstance(kind, click.types.IntParamType)
    plain.name = "whole number" if of_whole else "number"

    def read(value: Any, *place: Any) -> Any:
        text = plain_number(value) if isinstance(value, str) else value
        if of_whole and "%" in str(value):
            text = value
        number = plain.convert(text, *place)
        # no comparison refuses nan
        if isinstance(kind, click.FloatRange) and number != number:
            kind.fail("nan lies in no range", *place)
        return number

    lenient.convert = read
    return lenient  # type: ignore[no-any-return]
