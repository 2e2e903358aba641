"""The audit of the client: the sealed batches that leave a device, tested against the protocol.

Real clients run in a temporary folder, with a clock, bits and a destination of the audit. The audit
reads the sealed batches and the secret files and nothing else. Every count is exactly binomial, as
in `ldp.audit.cells`. Reports of every mechanism must have their law, and memoised reports the law
of `ldp.audit.lives`, within a metric and between two. The record of a period that is sent, the
order in a batch, the ids and the bits of the secrets must be uniform. What does not depend on
chance (the number of reports in a batch, its day and its size, that ids differ) must always hold.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import partial
from importlib.util import find_spec
from itertools import combinations, pairwise, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ldp.arrays import Generator, Ints
from ldp.audit.binomial_checks import never_checks, outcome_checks
from ldp.audit.cells import check_values
from ldp.audit.conditions import Seen
from ldp.audit.devices import (
    MESSAGES,
    WINDOW,
    AuditedDevice,
    GeneratedBits,
    MakesClient,
    SealingDevice,
)
from ldp.audit.draws import Draws
from ldp.audit.encoder import REPEATED, start_checks
from ldp.audit.judging import Audit, Checks, judge_again, prefixed
from ldp.audit.lives import Period, by_distance, by_place, independent_checks, response_checks
from ldp.audit.messages import record_checks
from ldp.audit.together import shared_checks, together_checks
from ldp.audit.tried_values import drawn_values, tried
from ldp.client import Caps, Client
from ldp.errors import ReportError
from ldp.mechanisms import (
    CATALOGUE,
    CatalogueMechanism,
    MemoisedResponse,
    RandomizedResponse,
    Rappor,
)
from ldp.mechanisms.dummies import Dummies
from ldp.mechanisms.memoisation import MemoisedMechanism
from ldp.protocol.batch import ID_BYTES, Batch
from ldp.protocol.hashing import Value
from ldp.registry import Metric, Registry
from ldp.registry.definitions import Group

FIRST_DEVICES, DEVICES, DAYS = 2, 8, 128
"""Number of devices that report with fresh noise in the first stage, and in the second, which
includes these; number of days on which each reports."""
MOST_OF_TWO = 25
"""Conditions on fresh noise that are checked hold for one report in this number, or for more."""
LIVES, TIMES = 64, 4
"""Devices whose responses are memoised; reports of each metric in each of their windows."""
PERIODS, RECORDS = 300, 300
"""Periods of one device whose batches are looked at; records of each value that becomes messages
for a shuffler."""
TRIED = 8
"""Largest number of values of a mechanism that are recorded."""
VALUES_OF_DAYS = (0, 1, 0, 2, 1)
"""Numbers of the three values that a device with memoised responses records, a window each."""
CATEGORIES = ("a", "b", "c", "d", "e", "f")
YEARS = 60
"""Number of years within which devices with memoised responses begin."""
WINDOWS_OF_EPOCH = 2
EPOCH = WINDOWS_OF_EPOCH * WINDOW
EPOCHS = tuple(day // WINDOWS_OF_EPOCH for day in range(len(VALUES_OF_DAYS)))
"""The number of the epoch of each of these days."""
START = datetime(2026, 1, 5, 12, tzinfo=UTC)
"""Noon of the first day of an epoch."""
SECRET_BYTES = 32
FILTER = Rappor(bits=32, hashes=1, cohorts=8, f=0.76, p=0.25, q=0.75, seed="6c66")
"""Filter of 32 bits: all reports of one response have an epsilon of 1, and one report has half."""
COLUMN = MemoisedResponse(categories=CATEGORIES[:4], epsilon=0.5, lifetime_epsilon=1.0)
RESPONSE = RandomizedResponse(categories=CATEGORIES, epsilon=1.0)
CERTAIN = RandomizedResponse(categories=CATEGORIES, epsilon=6.0)
HIDDEN = RandomizedResponse(categories=("none", *CATEGORIES[:3]), epsilon=1.0)
SOME = RandomizedResponse(categories=("none", "some"), epsilon=3.0)
NEW, SEVERAL, UNSEEN = "new", "several", "unseen"
"""Metrics with fresh noise, beside one of every mechanism."""
WORDS = ("lol", "afk", "brb")
"""Values that touch different bits in every cohort."""
MEMOISED: Mapping[str, tuple[MemoisedMechanism, tuple[str, ...], str]] = {
    "value-1": (FILTER, WORDS, "per-value"),
    "value-2": (FILTER, WORDS, "per-value"),
    "value-3": (COLUMN, CATEGORIES, "per-value"),
    "epoch-1": (FILTER, WORDS, "epoch"),
    "epoch-2": (FILTER, WORDS, "epoch"),
    "epoch-3": (COLUMN, CATEGORIES, "epoch"),
    "hidden": (FILTER, WORDS, "epoch"),
}
"""Mechanism, values and memoisation of metrics whose responses are memoised."""
MakesDevice = Callable[..., Any]
"""Function that makes an `AuditedDevice` whose client has a registry."""
COMMON_PARTS = ("reports", "lives", "periods")
PARTS = (*COMMON_PARTS, *["messages"] * (find_spec("cryptography") is not None))
"""Parts of an audit: of any client, and of the Python client, where its requirements are
installed."""


def audit_client(
    seed: int,
    *,
    starts: Sequence[MakesClient] = (Client,),
    scale: float = 1.0,
    parts: Sequence[str] = PARTS,
    alpha: float = 1e-6,
) -> Audit:
    """Return the audit of whether clients follow the device protocol, with all `client_stages`
    together. `starts`: functions that make clients, one for each start of their program. The first
    plays the stages, and the others must not repeat its noise. An honest client fails with
    probability `alpha` at most."""

    def play(draws: Draws) -> Iterator[list[Checks]]:
        if len(starts) > 1:
            yield repeated_starts(starts, draws.coins)
        yield from client_stages(draws, make=starts[0], scale=scale, parts=parts)

    return judge_again(play, seed, alpha)


def repeated_starts(starts: Sequence[MakesClient], coins: Generator) -> list[Checks]:
    """Return the checks that a restarted program sends neither the reports nor the ids of
    another start again, as it would with noise that follows from a constant. `starts`: functions
    that make clients, one for each start."""
    registry, bits = _registry([_metric(NEW, RESPONSE)]), GeneratedBits(coins)
    with TemporaryDirectory(prefix="ldp-audit-") as folder:
        devices = [
            AuditedDevice(Path(folder) / str(number), registry, bits, make, START)
            for number, make in enumerate(starts)
        ]

        def encoded(device: AuditedDevice, value: Value) -> bytes:
            return device.reports([(NEW, value)], {NEW: 1})[NEW][0]

        try:
            encoders = [partial(encoded, device) for device in devices]
            checks = start_checks(RESPONSE, CATEGORIES[0], encoders, coins)
        except ReportError as error:
            return [never_checks(f"starts: {error}", 1, 1)]
        ids = [batch.id for device in devices for batch in device.batches]
        again = len(ids) - len({*ids})
        return [*checks, never_checks("ids of another start again", again, len(ids))]


def client_stages(
    draws: Draws,
    *,
    make: MakesClient = Client,
    scale: float = 1.0,
    parts: Sequence[str] = PARTS,
) -> Iterator[list[Checks]]:
    """Yield the checks of the client, a list for each stage, which is played when the list is
    needed: "reports" of every mechanism with fresh noise, of two devices and of more; "lives" of
    devices that memoise; "periods" of one device; "messages" for a shuffler, which only the Python
    client sends, with the extra `sealed`. `scale`: factor of the numbers of days, lives, periods
    and messages.

    Bits of Python clients are coins of `draws`. Secrets come from the operating system. If a batch
    cannot be read or has another number of reports, that is the stage's only finding."""
    of_parts: Mapping[str, Callable[..., Iterator[list[Checks]]]] = {
        "reports": _report_stages,
        "lives": _life_stages,
        "periods": _period_stages,
        "messages": _message_stages,
    }
    memory = Path("/dev/shm")  # spares the disk; Linux only
    folder_of_all = memory if memory.is_dir() else None
    with TemporaryDirectory(prefix="ldp-audit-", dir=folder_of_all) as folder:
        bits = GeneratedBits(draws.coins)

        def device(
            registry: Registry,
            start: datetime = START,
            kind: type[AuditedDevice] = AuditedDevice,
            **more: Any,
        ) -> AuditedDevice:
            home = Path(folder) / str(next(draws.devices))
            return kind(home, registry, bits, make, start, **more)

        for part in parts:
            try:
                yield from of_parts[part](device, draws, scale)
            except ReportError as error:
                yield [never_checks(f"{part}: {error}", 1, 1)]


def played(parts: Sequence[str] = PARTS) -> str:
    """Return in words how many reports and mechanisms an audit of these parts covers."""
    fresh = DEVICES * DAYS * (len(CATALOGUE) + 2 + TIMES) * ("reports" in parts)
    lives = LIVES * len(VALUES_OF_DAYS) * len(MEMOISED) * TIMES * ("lives" in parts)
    number = fresh + lives + PERIODS * (2 + len(CATEGORIES)) * ("periods" in parts)
    messages = ", messages for a shuffler" * ("messages" in parts)
    return f"{number:,} reports, {len(CATALOGUE)} mechanisms{messages}"


def _registry(metrics: Iterable[Metric]) -> Registry:
    """Return a registry of these metrics whose caps are never reached."""
    caps = Caps(window=WINDOW, window_epsilon=1e9, lifetime_epsilon=1e9)
    by_name = {metric.name: metric for metric in metrics}
    groups = {metric.group: Group(metric.group, caps, WINDOW) for metric in by_name.values()}
    return Registry(Path("metrics.toml"), "audit of the client", groups, by_name)


def _metric(name: str, mechanism: CatalogueMechanism, group: str = "all", **keys: Any) -> Metric:
    """Return a metric with one report a window, or other `keys`."""
    keys = {"reports_per_window": 1, "dictionary": None, **keys}
    expires, owners = date(2100, 1, 1), ("audit",)
    return Metric(name, 1, group, "audit", owners, expires, mechanism, **keys)


def _fresh_metrics() -> list[Metric]:
    """Return a metric of every mechanism, and others of an epsilon of 1: with several reports in a
    window, and with hidden presence. Few are in one group: its charges are summed for a record."""
    examples = [(name, kind.examples()[0].mechanism) for name, kind in CATALOGUE.items()]
    metrics = [
        _metric(name, mechanism, f"group {number // 3}")
        for number, (name, mechanism) in enumerate([*examples, (NEW, RESPONSE)])
    ]
    metrics.append(_metric(SEVERAL, RESPONSE, SEVERAL, reports_per_window=TIMES))
    metrics.append(_metric(UNSEEN, HIDDEN, UNSEEN, presence="hidden"))
    return metrics


def _report_stages(device: MakesDevice, draws: Draws, scale: float) -> Iterator[list[Checks]]:
    """Yield the checks of reports with fresh noise: a value is drawn for each day, or that of the
    day before stays, and most metrics have one report. Where a window has several reports they are
    about one value, so that their order in the batch does not matter. On a day with the first value
    of a metric with hidden presence nothing is recorded for it."""
    metrics, days = _fresh_metrics(), max(8, round(DAYS * scale))
    registry, values = _registry(metrics), dict[str, tuple[Value, ...]]()
    for name, metric in registry.metrics.items():
        every = *tried(metric.mechanism), *drawn_values(metric.mechanism, draws.plan)
        values[name] = tuple(dict.fromkeys(every))[:TRIED]
    sizes = {metric.name: metric.reports_per_window for metric in metrics}
    which = {name: _of_days(len(some), days, draws.plan) for name, some in values.items()}
    sent, mistakes, batches = defaultdict[str, list[bytes]](list), 0, list[Batch]()
    for number in range(DEVICES):
        one = device(registry)
        for day in range(days):
            of_day = {name: values[name][which[name][number, day]] for name in sizes}
            if of_day[UNSEEN] == HIDDEN.placeholder:
                del of_day[UNSEEN]
            records = [record for record in of_day.items() for _ in range(sizes[record[0]])]
            for name, reports in one.reports(records, sizes).items():
                sent[name] += reports
        one.close()
        mistakes, batches = mistakes + one.mistakes, batches + one.batches
        if (devices := number + 1) not in (FIRST_DEVICES, DEVICES):
            continue
        checks = [never_checks("mistakes of devices with fresh noise", mistakes, devices * days)]
        pool: list[Seen] = []
        for name, metric in registry.metrics.items():
            mechanism, about = metric.mechanism, which[name][:devices].repeat(sizes[name], axis=1)
            split = [mechanism.row_and_payload(of) for of in sent[name]]
            places, calls = (of.ravel() for of in np.indices(about.shape))
            numbers = calls, one.number - number + places, MOST_OF_TWO
            of_reports = values[name], about.ravel(), split, draws.coins, *numbers
            of_metric = check_values(mechanism, *of_reports, pool=pool)
            checks += prefixed(f"metric {name!r}: ", of_metric)
        if devices == DEVICES:
            checks += together_checks(pool)
            checks += shared_checks(pool)
            checks += _batch_checks(batches, which)
        yield checks


def _of_days(values: int, days: int, generator: Generator) -> Ints:
    """Return the number of the value of each device on each day: shape (DEVICES, days)."""
    which = generator.integers(values, size=(DEVICES, days))
    places = np.where(generator.random(which.shape) < REPEATED, 0, np.arange(days))
    return np.take_along_axis(which, np.maximum.accumulate(places, axis=1), axis=1)


def _batch_checks(batches: Sequence[Batch], which: Mapping[str, Ints]) -> Iterator[Checks]:
    """Yield the checks that the bits of a batch's id and the place of a metric's only report in it
    do not follow from its value, whose number in each batch is in `which`."""
    names = [[item.metric for item in batch.items] for batch in batches]
    ids = np.array([[*batch.id] for batch in batches], np.uint8)
    size = len(names[0])
    chances = 0.5, 1 / size, size // 2 / size
    claimed = np.repeat(chances, (8 * ID_BYTES, size, 1))
    for name, numbers in which.items():
        if names[0].count(name) > 1:
            continue
        places = np.array([of.index(name) for of in names])[:, None]
        seen = np.hstack(
            [np.unpackbits(ids, axis=1), places == np.arange(size), places < size // 2]
        )
        for value in np.unique(numbers):
            some = seen[numbers.ravel() == value]
            what = f"metric {name!r}: batches of value {value}"
            yield what, some.sum(axis=0), np.full(claimed.size, len(some)), claimed


def _life_stages(device: MakesDevice, draws: Draws, scale: float) -> Iterator[list[Checks]]:
    """Yield the checks of devices that memoise. Each begins at a time of its own, and records three
    values in turn, the same ones for all metrics. Reports about one value, or of one epoch, must
    share one response. All other responses must be independent, also those of two metrics."""
    devices, days = max(4, round(LIVES * scale)), range(len(VALUES_OF_DAYS))
    registry, sizes = _registry(_memoised_metrics()), dict.fromkeys(MEMOISED, TIMES)
    sent = {name: [list[list[bytes]]() for _ in days] for name in MEMOISED}
    clients: list[AuditedDevice] = []
    for start in draws.plan.integers(YEARS * 366 // WINDOWS_OF_EPOCH, size=devices).tolist():
        clients.append(one := device(registry, START + start * EPOCH))
        for day in days:
            records = [(name, _recorded(name, day)) for name in MEMOISED for _ in range(TIMES)]
            for name, reports in one.reports(records, sizes).items():
                sent[name][day].append(reports)
    checks, periods = [*_secret_checks(clients)], dict[str, list[Period]]()
    apart = list[Period]()
    for name, (mechanism, _, memoise) in MEMOISED.items():
        of_days = enumerate(sent[name])
        periods[name] = [Period.of(mechanism, [_about(name, day)], of) for day, of in of_days]
        responses = EPOCHS if memoise == "epoch" else VALUES_OF_DAYS
        of_metric = response_checks(periods[name], responses, memoise)
        checks += prefixed(f"metric {name!r}: ", of_metric)
        if mechanism is FILTER:
            apart += [periods[name][responses.index(one)] for one in sorted({*responses})]
    for left, right in combinations(MEMOISED, 2):
        if MEMOISED[left][0] is MEMOISED[right][0]:
            for i, j in product(days, days):
                what = f"day {i + 1} of {left!r} and day {j + 1} of {right!r}"
                checks += independent_checks(what, periods[left][i], periods[right][j])
    filters = [of for name, of in periods.items() if MEMOISED[name][0] is FILTER]
    for day, true in product(days, (False, True)):
        what = f"metrics with filters, day {day + 1}, touched {true}"
        checks += by_place(what, [of[day] for of in filters], true)
    checks += by_distance(apart)
    yield checks


def _memoised_metrics() -> Iterator[Metric]:
    for name, (mechanism, _, memoise) in MEMOISED.items():
        yield _metric(
            name,
            mechanism,
            group="hidden" if name == "hidden" else memoise,
            presence="hidden" if name == "hidden" else "public",
            memoise=memoise,
            epoch=EPOCH if memoise == "epoch" else None,
            reports_per_window=TIMES,
        )


def _recorded(name: str, day: int) -> Value:
    """Return the value that a memoised metric records on a day. With hidden presence all values of
    an epoch are one, because any of them may be drawn."""
    return MEMOISED[name][1][EPOCHS[day] if name == "hidden" else VALUES_OF_DAYS[day]]


def _about(name: str, day: int) -> Any:
    """Return the value that a metric's reports of the day are about: the first value of the epoch,
    or, with hidden presence, that of the epoch before."""
    mechanism, _, memoise = MEMOISED[name]
    if memoise == "per-value":
        return _recorded(name, day)
    epoch = EPOCHS[day] - (name == "hidden")
    return _recorded(name, EPOCHS.index(epoch)) if epoch >= 0 else mechanism.placeholder


def _secret_checks(clients: Sequence[AuditedDevice]) -> Iterator[Checks]:
    """Yield the checks of the secrets, ids and mistakes of new devices, and close them."""
    secrets = [client.secret() for client in clients]
    for client in clients:
        client.close()
    mistakes = sum(client.mistakes for client in clients)
    yield never_checks("mistakes of new devices", mistakes, len(clients))
    whole = [secret for secret in secrets if len(secret) == SECRET_BYTES]
    yield never_checks("secrets of another length", len(secrets) - len(whole), len(secrets))
    yield from _uniform_bits("secret", whole, SECRET_BYTES)
    first = [client.batches[0].id for client in clients if client.batches]
    yield from _uniform_bits("first id of a device", first, ID_BYTES)


def _period_stages(device: MakesDevice, _: Generator, scale: float) -> Iterator[list[Checks]]:
    """Yield the checks of one device. In every period it records each category once, in order. In
    every other period it also records the metric with hidden presence. Noise is small, so that the
    reports show which records were sent."""
    size, periods = len(CATEGORIES), max(30, round(PERIODS * scale))
    several = _metric("all", CERTAIN, reports_per_window=size)
    hidden = _metric("hidden", SOME, "hidden", presence="hidden")
    registry = _registry([_metric("one", CERTAIN), several, hidden])
    yield [*_sampling(device(registry), registry.metrics, periods)]


def _sampling(
    device: AuditedDevice, metrics: Mapping[str, Metric], periods: int
) -> Iterator[Checks]:
    """Yield the checks of which records are sent, in which order and under which ids, and of
    reports with hidden presence."""
    size = len(CATEGORIES)
    records = [(name, value) for value in CATEGORIES for name in ("one", "all")]
    sent, wrong = [], 0
    for number in range(periods):
        reports = device.period([*records, *[("hidden", "some")] * (number % 2)])
        if sorted(name for name, _ in reports) != sorted(["one", "hidden", *["all"] * size]):
            wrong += 1
        else:
            sent.append(reports)
    device.close()
    yield never_checks("periods with another number of reports", wrong, periods)
    yield never_checks("foreign ids, wrong days and refused records", device.mistakes, periods)
    yield never_checks("batches beside one a period", abs(len(device.batches) - periods), periods)
    yield from _uniform_bits("id", [batch.id for batch in device.batches], ID_BYTES)
    if not sent:
        return
    uniform = np.full(size, 1 / size)
    columns = {
        name: np.array([_columns(metrics[name], reports) for reports in sent])
        for name in ("one", "all", "hidden")
    }
    places = {
        name: np.array([[name for name, _ in reports].index(name) for reports in sent])
        for name in ("one", "hidden")
    }
    everywhere = np.full(size + 2, 1 / (size + 2))
    yield outcome_checks("places of metric one in the batch", places["one"], everywhere)
    yield outcome_checks("records sent, of a period", columns["one"][:, 0], uniform)
    for place in range(size):
        yield outcome_checks(f"records at place {place}", columns["all"][:, place], uniform)
    true, lie = CERTAIN.channel.chances
    noise = np.full((size, size), lie)
    np.fill_diagonal(noise, true)
    both = noise.T @ ((1 - np.eye(size)) / (size * (size - 1))) @ noise
    for place in range(size - 1):
        keys = columns["all"][:, place] * size + columns["all"][:, place + 1]
        yield outcome_checks(f"records at places {place} and {place + 1}", keys, both.ravel())
    for which, name in enumerate(("none", "some")):
        true, lie = SOME.channel.chances
        law = np.array([true, lie])[:: -1 if which else 1]
        period = np.arange(len(sent)) % 2 == which
        if not wrong:
            yield outcome_checks(f"hidden periods of {name}", columns["hidden"][period, 0], law)
            some = places["hidden"][period]
            yield outcome_checks(f"places of metric hidden in periods of {name}", some, everywhere)
            halves = some * 2 // (size + 2), np.full(2, 0.5)
            yield outcome_checks(f"halves of batches in periods of {name}", *halves)
            apart = (some - places["one"][period]) % (size + 2) - 1
            around = np.full(size + 1, 1 / (size + 1))
            yield outcome_checks(f"places between two metrics in periods of {name}", apart, around)


def _columns(metric: Metric, reports: Sequence[tuple[str, bytes]]) -> list[int]:
    mechanism: Any = metric.mechanism
    return [
        int.from_bytes(mechanism.row_and_payload(report)[1], "little")
        for name, report in reports
        if name == metric.name
    ]


def _message_stages(device: MakesDevice, _: Generator, scale: float) -> Iterator[list[Checks]]:
    """Yield the checks of one device that seals messages for a shuffler, a record a day."""
    from ldp.protocol.sealing_keys import PrivateKey  # late: an extra

    private_key = PrivateKey(PrivateKey.kind.generate())
    mechanism, fingerprint = Dummies.examples()[0].mechanism, private_key.fingerprint
    metric = _metric(MESSAGES, mechanism, MESSAGES, shuffled_epsilon=1.0, sealing_key=fingerprint)
    registry = _registry([metric])._replace(sealing_keys=(fingerprint,))
    trusting = registry.groups[MESSAGES]._replace(trust="shuffler", consent="A relay mixes these.")
    registry = registry._replace(groups={MESSAGES: trusting})
    one = device(registry, kind=SealingDevice, private_key=private_key)
    assert isinstance(mechanism, Dummies)
    checks = record_checks(mechanism, one.encode, max(8, round(RECORDS * scale)))
    one.close()
    yield [never_checks("mistakes of a device with messages", one.mistakes, RECORDS), *checks]


def _uniform_bits(what: str, words: Sequence[bytes], size: int) -> Iterator[Checks]:
    """Check that words are random and differ: every bit, and every bit of one word and the next."""
    yield never_checks(f"equal: {what}", len(words) - len(set(words)), len(words))
    if len(words) < 2:
        return
    block = np.frombuffer(b"".join(words), dtype=np.uint8).reshape(len(words), size)
    bits = np.unpackbits(block, axis=1).astype(np.int64)
    changed = bits[1:] ^ bits[:-1]
    for name, of in (("bits", bits), ("changed bits", changed)):
        trials = np.full(8 * size, len(of))
        yield f"{name} of the {what}", of.sum(axis=0), trials, np.full(8 * size, 0.5)
    low = [int.from_bytes(word, "big") for word in words]
    steps = sum(0 < abs(second - first) < 1 << 64 for first, second in pairwise(low))
    yield never_checks(f"{what} next to the one before", steps, len(words))
