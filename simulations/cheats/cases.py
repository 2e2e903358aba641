"""Draw, qualify and audit the numbered cases of the campaign.

Everything in a case follows from the seed, the path and the number, but for the audit's own
randomness. Processes draw cases ahead. Cases after the last that is needed are dropped, so the
number of processes changes nothing.
"""

import importlib
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from itertools import count

import numpy as np

from simulations.campaign import Bar
from simulations.cheats import Subject, paths
from simulations.cheats.qualification import sighted

AHEAD = 4
"""Cases that are started before the result of the first of them is read."""
MOST_MISSED = 0.01
MINUTES = 60


@dataclass(frozen=True)
class Case:
    """Outcome of one drawn cheat.

    `why_not`: why it does not qualify. `finding`: the audit's first finding against it; None where
    it was missed or not audited.
    """

    path: str
    number: int
    subject: str
    wrong: str
    sentence: str
    share: float
    why_not: str | None
    finding: str | None
    seconds: float

    @property
    def outcome(self) -> str:
        """Column of the result's table."""
        if self.why_not:
            return "not qualified"
        return "caught" if self.finding else "missed"


def case(
    path: str, number: int, seed: int, grammar: str, subjects: dict[str, Subject]
) -> tuple[Case, Subject]:
    """Draw, qualify and audit the cheat with this number; return the case and its subject.

    A subject that is not among `subjects` is measured by an honest audit.
    """
    started = time.perf_counter()
    generator = np.random.default_rng([seed, sum(path.encode()), number])
    names = paths.names(path)
    name = names[int(generator.integers(len(names)))]
    subject = subjects.get(name) or paths.subject(path, name)
    cheat = importlib.import_module(grammar).draw(generator, subject)
    sighting = sighted(cheat, subject, int(generator.integers(1 << 62)))
    why_not = sighting.why_not(subject.reports)
    finding = None if why_not else paths.caught(cheat, subject, number)
    seconds = round(time.perf_counter() - started, 1)
    done = Case(
        path,
        number,
        subject.name,
        cheat.wrong,
        cheat.sentence,
        round(sighting.share, 4),
        why_not,
        finding,
        seconds,
    )
    return done, subject


def in_order(pool: ProcessPoolExecutor, path: str, seed: int, grammar: str) -> Iterator[Case]:
    """Yield the cases 0, 1, ... of a path without end; some are computed ahead."""
    subjects: dict[str, Subject] = {}
    running: list[Future[tuple[Case, Subject]]] = []
    for number in count():
        running.append(pool.submit(case, path, number, seed, grammar, dict(subjects)))
        if len(running) > AHEAD:
            done, subject = running.pop(0).result()
            subjects[subject.name] = subject
            yield done


def run(pool: ProcessPoolExecutor, path: str, per_path: int, seed: int, grammar: str) -> list[Case]:
    """Print and return the cases of a path, up to the last that is needed."""
    cases: list[Case] = []
    qualified = 0
    for done in in_order(pool, path, seed, grammar):
        cases.append(done)
        qualified += done.why_not is None
        print(
            f"{done.outcome}: {path} {done.number}, {done.subject}: {done.sentence}"
            f" ({done.why_not or done.finding or 'no finding'}; {done.seconds:.0f} s)",
            flush=True,
        )
        if qualified == per_path:
            break
    return cases


def table(cases: list[Case]) -> dict[str, dict[str, dict[str, float]]]:
    """Return numbers of cases by outcome, and seconds, by path and by what goes wrong."""
    lines: dict[str, dict[str, dict[str, float]]] = {}
    for path in dict.fromkeys(entry.path for entry in cases):
        lines[path] = {}
        for wrong in sorted({entry.wrong for entry in cases if entry.path == path}):
            of_line = [entry for entry in cases if (entry.path, entry.wrong) == (path, wrong)]
            outcomes = Counter(entry.outcome for entry in of_line)
            lines[path][wrong] = {
                "qualified": outcomes["caught"] + outcomes["missed"],
                "caught": outcomes["caught"],
                "missed": outcomes["missed"],
                "drawn but not qualified": outcomes["not qualified"],
                "seconds": round(sum(entry.seconds for entry in of_line), 1),
            }
    return lines


def bars(cases: list[Case], wanted: int, minutes: float) -> list[Bar]:
    """Return the limits that a campaign is held to."""
    qualified = [entry for entry in cases if entry.why_not is None]
    missed = sum(entry.outcome == "missed" for entry in qualified)
    most = int(MOST_MISSED * wanted)
    return [
        Bar("cheats that qualify", len(qualified), f"{wanted}", len(qualified) == wanted),
        Bar("of them missed by the audit", missed, f"at most {most}", missed <= most),
        Bar(
            "processor minutes of each of two cores",
            minutes,
            f"at most {MINUTES}",
            minutes <= MINUTES,
        ),
    ]
