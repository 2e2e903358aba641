"""Checks of an encoder: of reports of each value, of reports of many values, of repeated noise."""

import math
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from ldp.arrays import Generator, Ints
from ldp.audit.binomial_checks import sum_checks
from ldp.audit.black_box import reports_of, require_trials
from ldp.audit.cells import check_reports, check_values, is_rounded
from ldp.audit.conditions import evened, largest_chance
from ldp.audit.draws import Draws
from ldp.audit.judging import Audit, Checks, judge, prefixed, summed
from ldp.audit.law import likelihood
from ldp.audit.reports import DEVICES, VALUE, VALUE_BEFORE
from ldp.errors import from_extra, require_share
from ldp.mechanisms import JointReport
from ldp.mechanisms.addressing import Rounding
from ldp.mechanisms.base import CatalogueMechanism
from ldp.mechanisms.joint_base import parts_of, values_of_parts
from ldp.protocol.hashing import Value
from ldp.protocol.kinds import Bits, Index, Sign, Subset

CHUNK = 20_000
"""Number of reports that are checked together."""


Encode = Callable[[Value], bytes]


class Way(NamedTuple):
    """Way to make reports: function that makes a `device`. New devices take turns of 1 to `most`
    reports. With None one device makes all reports. `keeps_row`: whether a device's reports are all
    in one row, and those about one value have one permanent response. `epochs`: at most DEVICES,
    one of which a device is made for. It is counted by the place of its epoch."""

    device: Callable[..., Encode]
    most: int | None = None
    keeps_row: bool = False
    epochs: Sequence[str] = ()

    def new_device(self, draws: Draws) -> tuple[Encode, int]:
        """Return what encodes on a new device, and the number by which that is counted."""
        number = next(draws.devices)
        if not self.epochs:
            return self.device(), number
        place = int(draws.coins.integers(len(self.epochs)))
        return self.device(self.epochs[place]), place


REPEATS = {Bits: 6, Subset: 6, Index: 16, Sign: 16}
"""Reports that are searched for repeated noise, as a multiple of the trials."""


RARE = 1e-9
"""Probability of the same reports of two devices, at most."""
NEVER = 1e-18
"""Probability of a repetition that every audit refutes, however many counts it checks."""
AFTER_START = 400
"""Reports after each start of a program."""
LEAST_EACH, EACH_OF_ALL, FEW = 16, 400, 16
"""Reports of each of many values; of each of a joint metric's, where all of them are tried; number
of values of which more reports are made."""
REPEATED = 0.25
"""Probability that a value is the same as the one before, as people's values often are."""
STRANGE = ((8, 0.1), (2, 0.5))
"""Number of values that are tried again, and the part of the trials for each, in two rounds: the
values whose reports look strangest, and as many whose next report does."""

AGAIN = " again: "
"""Between the number of values that are tried again and the name of a check."""


def audit_encoder(
    mechanism: CatalogueMechanism,
    values: Sequence[Value],
    encode: Encode,
    *,
    trials: int,
    alpha: float = 1e-6,
) -> Audit:
    """Encode every value `trials` times and check the reports against `mechanism`.

    Raises ReportError when bytes are no report of the mechanism, and ParameterError for no values
    or trials, and an alpha outside (0, 1). Memory: about ten times min(trials, CHUNK) x columns
    bytes.
    """
    require_trials(values, trials)
    alpha = require_share(alpha, "alpha")
    return judge(encoder_checks(mechanism, values, encode, trials), alpha)


def encoder_checks(
    mechanism: CatalogueMechanism,
    values: Sequence[Value],
    encode: Encode,
    trials: int,
) -> list[Checks]:
    """Return the checks of `trials` reports of each value."""
    checks: list[Checks] = []
    for value in values:
        pool: dict[Any, Checks] = {}
        for done in range(0, trials, CHUNK):
            some = [value] * min(CHUNK, trials - done)
            reports = reports_of(mechanism, some, encode)
            _add(pool, check_reports(mechanism, value, reports, done))
        checks += pool.values()
    return checks


def value_checks(
    mechanism: CatalogueMechanism,
    values: Sequence[Value],
    way: Way,
    trials: int,
    draws: Draws,
) -> list[Checks]:
    """Return the checks of reports of many values, in a drawn order. There are `trials` in total, 4
    times as many of at most FEW values that are not pairs, and at least `trials` / 80 of each;
    `trials` / 16 where values are rounded at random, EACH_OF_ALL or `trials` / 5 where all values
    of a joint metric are tried. Then the values that look strangest are tried again, in two rounds
    with fewer values and more reports of each. These reports are new, so that no choice biases
    them."""
    parts = parts_of(mechanism)
    has_rounding = any(isinstance(part.addressing, Rounding) for part in parts)
    least = max(LEAST_EACH, trials // (16 if has_rounding else 80))
    is_joint = isinstance(mechanism, JointReport)
    times = 1 if is_joint or len(values) > FEW else 4
    pairs = zip(*values, strict=True) if is_joint else ()
    if is_joint and len(values) == math.prod(len({*of}) for of in pairs):
        least = max(least, min(EACH_OF_ALL, trials // 5))
    repetitions = max(least, times * trials // len(values))
    checks = seen = _mixed(mechanism, values, way, repetitions, draws)
    for strange, share in STRANGE:
        of = seen, len(values), strange, VALUE, VALUE_BEFORE
        chosen = draws.chosen(partial(_strangest, *of))
        values = [values[place] for place in chosen]
        if len(values) < 2:
            break
        if way.epochs:
            places = draws.chosen(partial(_strangest, seen, DEVICES, strange, "epoch"))
            epochs = [way.epochs[place] for place in places]
            way = way._replace(epochs=epochs)
        seen = _mixed(mechanism, values, way, int(trials * share), draws)
        checks = [*checks, *prefixed(f"{strange}{AGAIN}", seen)]
    return checks


def with_sums(stages: Iterable[list[Checks]]) -> Iterator[list[Checks]]:
    """Yield the checks of stages, then the sums, over all rounds and stages, of checks with the
    same name and probabilities: a lie that does not depend on the value is told by all reports."""
    pool: dict[Any, Checks] = {}
    sums = dict[Any, None]()
    for stage in stages:
        yield stage
        again = _add(pool, stage, lambda what: what.partition(AGAIN)[2] or what)
        sums |= dict.fromkeys(again)
    yield [(f"all reports: {pool[key][0]}", *pool[key][1:]) for key in sums]


def _mixed(
    mechanism: CatalogueMechanism,
    values: Sequence[Value],
    way: Way,
    repetitions: int,
    draws: Draws,
) -> list[Checks]:
    """Return the checks of about `trials` reports of each value, in a drawn order: on average every
    fourth report is about the same value as the one before."""
    pool: dict[Any, Checks] = {}
    order = draws.plan.permutation(np.repeat(np.arange(len(values)), repetitions))
    places = np.where(draws.plan.random(order.size) < REPEATED, 0, np.arange(order.size))
    order = order[np.maximum.accumulate(places)]
    name = "epoch" if way.epochs else "device"
    numbered = _reports(mechanism, values, way, order, draws)
    for start in range(0, order.size, CHUNK):
        reports, calls, devices = zip(*islice(numbered, CHUNK), strict=True)
        of_reports = order[start : start + CHUNK], reports, draws.coins
        numbers = np.array(calls), np.array(devices)
        checks = check_values(mechanism, values, *of_reports, *numbers, keeps_row=way.keeps_row)
        _add(pool, checks, lambda what: what.replace("device", name))
    return list(pool.values())


def _reports(
    mechanism: CatalogueMechanism, values: Sequence[Value], way: Way, order: Ints, draws: Draws
) -> Iterator[tuple[tuple[int, bytes], int, int]]:
    """Yield the reports of values in an order, each with the number of its call and device, 0 where
    one device makes all. A device that keeps its row only reports values that touch different
    cells."""
    (encode, number), call, left, row = way.new_device(draws), 0, 0, 0
    touched = set[Any]()
    cells: Any = cache(lambda at, row: (*mechanism.cells(values[at], row),))  # type: ignore[attr-defined]
    for at in order.tolist():
        if way.most and (not left or (way.keeps_row and cells(at, row) in touched)):
            (encode, number), call, touched = way.new_device(draws), 0, set()
            left = int(draws.coins.integers(1, way.most, endpoint=True))
        report = mechanism.row_and_payload(encode(values[at]))
        yield report, call, number if way.most else 0
        call, left, row = call + 1, left - 1, report[0]
        if way.keeps_row:
            touched.add(cells(at, row))


def _strangest(checks: Sequence[Checks], values: int, most: int, *names: str) -> list[int]:
    """Return the numbers of the values whose counts lie farthest from the claim: at most `most` by
    the counts by each of the `names` of numbers. Rare counts weigh less."""
    strange: list[int] = []
    for name in names:
        scores = np.zeros(values)
        for what, counts, trials, claimed in checks:
            if what.endswith(f"by {name}") and counts.size % values == 0:
                variances = trials * claimed * (1 - claimed)
                usual, variances = variances > 0.1, np.maximum(variances, 0.1)
                far = (counts - trials * claimed) ** 2 / variances - 1, 2 + 1 / variances
                sums, noise = ((usual * of).reshape(values, -1).sum(axis=1) for of in far)
                scores = np.maximum(scores, sums / np.sqrt(noise + 1e-9))
        strange += np.argsort(-scores)[: min(most, np.count_nonzero(scores))].tolist()
    return list(dict.fromkeys(strange))


def repeat_checks(
    mechanism: CatalogueMechanism, value: Value, encode: Encode, trials: int
) -> list[Checks]:
    """Return the checks that reports of one value do not repeat each other's noise. Given the first
    half, the number of reports of the second half that equal one of the first is binomial. Pairs of
    any distance count, so noise from a short seed shows. Parts of few different reports repeat
    anyway and are left out. If all parts are, nothing is encoded."""
    many = {kind: factor * min(trials, CHUNK) for kind, factor in REPEATS.items()}
    parts = [
        (number, part, part_value)
        for number, (part, (part_value,)) in enumerate(values_of_parts(mechanism, [value]))
        if not is_rounded(part, part_value, {0})
        and largest_chance(part) / part.shape.rows * many[part.kind] <= 1
    ]
    if not parts:
        return []
    size = max(many[part.kind] for _, part, _ in parts)
    split = [
        mechanism.layout.split(*report) for report in reports_of(mechanism, [value] * size, encode)
    ]
    checks = []
    for number, part, part_value in parts:
        keys = [
            (row, int.from_bytes(payload, "little")) for row, payload in (s[number] for s in split)
        ]
        known = set(keys[: size // 2])
        point = part.addressing.point(part_value)
        share = (
            sum(likelihood(part, part.addressing.cells(point, row), word) for row, word in known)
            / part.shape.rows
        )
        seen = np.array([key in known for key in keys[size // 2 :]])
        checks.append(
            sum_checks("reports that repeat an earlier one", seen, seen | True, min(1.0, share))
        )
    return checks


def sequence_checks(
    mechanism: CatalogueMechanism, value: Value, device: Callable[[], Encode], trials: int
) -> list[Checks]:
    """Return the check that new devices do not make the reports of earlier ones, as with noise from
    a seed of 16 bits. Each makes enough that two honest devices make the same with probability RARE
    at most. There is no check where that takes more than 15 * `trials`, as at a large epsilon."""
    parts = parts_of(mechanism)
    chance = math.prod(largest_chance(part) / part.shape.rows for part in parts)
    if chance ** (15 * trials) > RARE:
        return []
    length = math.ceil(math.log(RARE) / math.log(chance))
    half = trials * 15 // max(75, length)
    devices = (reports_of(mechanism, [value] * length, device()) for _ in range(2 * half))
    known = set(map(tuple, islice(devices, half)))
    seen = np.array([(*reports,) in known for reports in devices], dtype=bool)
    return [sum_checks("reports of an earlier device", seen, seen | True, RARE * len(known))]


def of_new_processes(encode: Encode) -> Encode:
    """Return what makes each report in a new process, which is forked from this one. Raises
    MissingPackage on Windows."""
    with from_extra("an audit", "server"):
        import fcntl  # noqa: F401  # where there is fork, too

    def encode_first(value: Value) -> bytes:
        reading, writing = os.pipe()
        # of other threads, which the child does not need
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if not child:
            with suppress(BaseException):
                os.write(writing, encode(value))
            os._exit(0)
        os.close(writing)
        with open(reading, "rb") as pipe:
            report = pipe.read()
        os.waitpid(child, 0)
        return report

    return encode_first


def start_checks(
    mechanism: CatalogueMechanism,
    value: Value,
    starts: Sequence[Encode],
    coins: Generator,
    most: int = AFTER_START,
) -> list[Checks]:
    """Return the checks that the first reports of one value are not those of another start of the
    same program, as they would be with noise from a constant or from the time. `starts`: the
    encoders after each start. `coins` make the chances of a repetition equal. `most`: number
    of reports that may be compared where AFTER_START are too likely to be equal by chance."""
    parts = [
        (number, part, part_value)
        for number, (part, (part_value,)) in enumerate(values_of_parts(mechanism, [value]))
        if not is_rounded(part, part_value, {0})
    ]
    if not parts:
        return []
    least = min(largest_chance(part) / part.shape.rows for _, part, _ in parts)
    is_enough = least**most < NEVER
    enough = math.ceil(math.log(NEVER) / math.log(least)) if is_enough else most
    values = [value] * max(AFTER_START, enough)
    reports = [
        [mechanism.layout.split(*one) for one in reports_of(mechanism, values, encode)]
        for encode in starts
    ]
    checks = []
    for number, part, part_value in parts:
        first, *others = ([split[number] for split in some] for some in reports)
        cells = partial(part.addressing.cells, part.addressing.point(part_value))
        chances = np.array(
            [likelihood(part, cells(row), int.from_bytes(word, "little")) for row, word in first]
        )
        chance = float(chances.max())
        for other in others:
            same = np.array([one == again for one, again in zip(first, other, strict=True)])
            seen = evened(same, chances / part.shape.rows, chance / part.shape.rows, coins)
            what = f"part {number + 1}: reports of another start again"
            checks.append(sum_checks(what, seen, seen | True, chance / part.shape.rows))
    return checks


def _add(
    pool: dict[Any, Checks], checks: Iterable[Checks], name: Callable[[str], str] = str
) -> list[Any]:
    """Add checks of some reports to those of others in `pool`, which have one name, as `name` makes
    it, and one place among the checks of that name. Return the keys of the sums."""
    times, sums = Counter[str](), list[Any]()
    for what, *numbers in checks:
        check: Any = name(what), *numbers
        key = check[0], times[what], hash(check[3].tobytes())
        times[what] += 1
        if key in pool:
            sums.append(key)
            check = summed(pool[key], check)
        pool[key] = check
    return sums
