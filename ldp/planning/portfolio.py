"""Several questions of one product under one person's caps: what each takes, and which fit.

Prices add: a question costs a person its epsilon once for every window, or every epoch, until its
end date. So each question takes the least epsilon with which its answer is as exact as asked, and
questions are accepted in the order of the file while the sums stay below the caps.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, timedelta
from fractions import Fraction
from functools import cached_property, partial
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from typing import Any

from ldp.accounting.cost_composition import exact_sum
from ldp.accounting.policy import periods_touched
from ldp.data_files import AS_WRITTEN, Reading
from ldp.errors import ParameterError, errors_in
from ldp.files import quoted
from ldp.mechanisms import Mechanism
from ldp.planning.mechanism_choice import registry_lines, report_bytes
from ldp.planning.question import KINDS, MOST_USERS, Files, Question
from ldp.protocol.channel import round_down, round_up
from ldp.protocol.keys import DAY as DATE
from ldp.protocol.keys import PLAIN, PLAINS, Form, Key, read_keys, section, whole
from ldp.protocol.strict_json import read_toml
from ldp.registry.definitions import NOBODY

EPSILONS = tuple(0.02 * 1.02**step for step in range(340))
"""Prices that are tried: 0.02 to 16.5 in steps of 2 %."""
NEAR = 2
"""Number of steps above the least price in which the smallest report is taken: users pay for its
bytes, and 4 % of an epsilon hardly matters."""
DAY = timedelta(days=1)


_DAYS = Form(
    'whole days, as "7d"', (str,), pattern="0*[1-9][0-9]{0,4}d", read=lambda text: int(text[:-1])
)
_AMOUNT = Form("a number above 0, up to 1e9", (int, float), most=1e9, above=0, read=float)
TOP = {
    "product": Key(section(" [product]")),
    "question": Key(section(" [question.NAME] for each question", 1)),
}
PRODUCT = {
    "name": Key(PLAIN, "Name of the product"),
    "users": Key(whole(1, MOST_USERS), "Number of people who report in a window"),
    "start": Key(DATE, "First day, by default today", None),
    "day_epsilon": Key(_AMOUNT, "Cap of a person in any 24 hours"),
    "lifetime_epsilon": Key(_AMOUNT, "Cap of a person for life"),
}
ASK = {
    "ask": Key(PLAIN, "What is asked, for the person who is asked"),
    "every": Key(_DAYS, "Days that an answer is about"),
    "until": Key(DATE, "Last day of the question"),
    "within": Key(_AMOUNT, "Largest error of an answer"),
    "keep": Key(_DAYS, "Days for which a person's first answer may stand for later ones", 0),
    "owners": Key(PLAINS, "Who answers for the metric", (NOBODY,)),
}


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A question as a product asks it: an answer for every `days` days until the day `until`, with
    an error of `within`. `keep_days`: for how long a person's first answer may stand for later
    ones. 0 means that each report is about its own window."""

    name: str
    about: str
    owners: tuple[str, ...]
    days: int
    until: date
    within: float
    keep_days: int
    question: Question

    @classmethod
    def read(cls, name: str, keys: Any, files: Files, users: int, start: date) -> "Ask":
        """Return the question in a section, which may name `files`: to this number of `users`, from
        `start` on. Raises ParameterError naming the key that is wrong."""
        if not re.fullmatch("[A-Za-z0-9_-]{1,64}", name):
            raise ParameterError("a question's name is up to 64 letters, digits, _ and -")
        read_keys(keys, {}, may_have_others=True)  # it is a section
        kinds = [kind for key, kind in KINDS.items() if key in keys]
        if len(kinds) != 1:
            raise ParameterError(f"give one of {', '.join(KINDS)}")
        values = read_keys(keys, ASK | kinds[0].keys)
        if values["until"] < start:
            raise ParameterError(f"until is before the start, {start}")
        return cls(
            name=name,
            about=values["ask"],
            owners=values["owners"],
            days=(days := values["every"]),
            until=values["until"],
            within=values["within"],
            keep_days=values["keep"] // days * days,
            question=kinds[0].read(values, files, users=users, epsilon=1.0),
        )


@dataclass(frozen=True, kw_only=True)
class Product:
    """Product with its name. `users`: number who report in a window. `start`: first day; the caps:
    of a person, in any 24 hours and for life. `questions`: the most important first."""

    name: str
    users: int
    start: date
    day_epsilon: float
    lifetime_epsilon: float
    questions: tuple[Ask, ...]
    _reckoned: dict[tuple[str, int, float], "tuple[PlannedMetric, ...]"] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @classmethod
    def load(cls, path: Path, today: date, reading: Reading = AS_WRITTEN) -> "Product":
        """Read a file of questions. They begin `today` unless it has a `start`. `reading`: how the
        files of data that they name are written. Raises ParameterError naming the question and key
        that is wrong."""
        files, document = Files(path.parent, reading), read_toml(path, ParameterError)
        with errors_in(str(path)):
            top = read_keys(document, TOP)
            with errors_in("[product]"):
                product = read_keys(top["product"], PRODUCT)
            product["start"] = product["start"] or today
            questions = list[Ask]()
            for name, keys in top["question"].items():
                with errors_in(f"[question.{name}]"):
                    ask = Ask.read(name, keys, files, product["users"], product["start"])
                questions.append(ask)
        return cls(**product, questions=tuple(questions))

    def answer(self) -> "Portfolio":
        """Return which questions fit below the caps, each with its mechanism. Small reports are
        given up where one more question fits without them."""
        plan = self._answer(NEAR)
        if not plan.refused:
            return plan
        cheapest = self._answer(0)
        return cheapest if len(cheapest.refused) < len(plan.refused) else plan

    def _answer(self, near: int) -> "Portfolio":
        """Return the plan that takes, for each question, the smallest report up to `near` steps
        above the least price."""
        accepted, refused = list[PlannedMetric](), list[RefusedQuestion]()
        for ask in self.questions:
            day = _left(self.day_epsilon, (answer.day for answer in accepted))
            life = _left(self.lifetime_epsilon, (answer.life for answer in accepted))
            best = self._least(ask, near)
            if best is not None and best.day <= day and best.life <= life:
                accepted.append(best)
            else:
                refused.append(
                    RefusedQuestion(ask, best, day, life, self._affordable(ask, day, life))
                )
        return Portfolio(self, tuple(accepted), tuple(refused))

    def _least(self, ask: Ask, near: int) -> "PlannedMetric | None":
        """Return the answer with the least cost for life among those that are exact enough. For
        each way only the answer with the smallest report counts, up to `near` steps above its least
        price."""
        least = list[PlannedMetric]()
        for keep_days in sorted({0, ask.keep_days}):
            at = partial(self.answers_at, ask, keep_days)
            exact = attrgetter("is_exact")
            place = bisect_left(EPSILONS, True, key=lambda epsilon: any(map(exact, at(epsilon))))
            answers = chain.from_iterable(map(at, EPSILONS[place : place + near + 1]))
            by_size = sorted(answers, key=lambda way: (report_bytes(way.mechanism), way.epsilon))
            least += islice(filter(exact, by_size), 1)
        return min(least, key=lambda answer: answer.life, default=None)

    def answer_at(self, ask: Ask, keep_days: int, epsilon: float) -> "PlannedMetric | None":
        """Return the answer with the least error at this price. Returns None if no mechanism has
        it."""
        answers = self.answers_at(ask, keep_days, epsilon)
        return min(answers, key=lambda answer: answer.error, default=None)

    def answers_at(self, ask: Ask, keep_days: int, epsilon: float) -> "tuple[PlannedMetric, ...]":
        """Return the answers of all mechanisms at this price, which are computed once."""
        key = (ask.name, keep_days, epsilon)
        if key not in self._reckoned:
            answers = list[PlannedMetric]()
            # of a mechanism that does not exist at this epsilon
            with suppress(ParameterError):
                question = ask.question.with_(epsilon=epsilon)
                for way in question.memoised() if keep_days else question.mechanisms():
                    answers.append(PlannedMetric(ask, question, way, keep_days, self.start))
            self._reckoned[key] = tuple(answers)
        return self._reckoned[key]

    def _affordable(self, ask: Ask, day: float, life: float) -> "PlannedMetric | None":
        """Return the most exact answer that can be paid with what is left, `day` and `life`."""
        answers = list[PlannedMetric]()
        for keep_days in sorted({0, ask.keep_days}):
            if unit := self.answer_at(ask, keep_days, 1.0):
                place = bisect_left(EPSILONS, min(day / unit.day, life / unit.life))
                for epsilon in EPSILONS[max(0, place - 1) : place]:
                    answers += self.answers_at(ask, keep_days, epsilon)
        return min(answers, key=lambda answer: answer.error, default=None)


def _left(cap: float, spent: Iterable[float]) -> float:
    """Return what is left of a cap, rounded down."""
    return round_down(max(Fraction(0), Fraction(cap) - sum(map(Fraction, spent))))


@dataclass(frozen=True)
class PlannedMetric:
    """Answer to the `question` of an `ask`, at the epsilon of one charge: the mechanism, and the
    number of days for which a charge lasts (0 unless it is memoised)."""

    ask: Ask
    question: Question
    mechanism: Mechanism
    keep_days: int
    start: date

    @property
    def epsilon(self) -> float:
        """Epsilon of a charge that the mechanism is tuned to."""
        return self.question.epsilon

    @cached_property
    def error(self) -> float:
        """The error that the ask bounds."""
        return self.question.error(self.mechanism)

    @cached_property
    def is_exact(self) -> bool:
        """Return whether `error` is at most the error that the ask allows."""
        return self.question.is_exact(self.mechanism, self.ask.within)

    @cached_property
    def planned_for(self) -> str:
        """People for whom the error is stated."""
        return self.question.planned_for()

    @property
    def charges(self) -> int:
        """Number of windows, or of epochs, from the start to the end."""
        length = self.keep_days or self.ask.days
        days = ((day - date(1970, 1, 1)).days for day in (self.start, self.ask.until))
        first, last = (day // length for day in days)
        return last - first + 1

    @cached_property
    def price(self) -> float:
        """Epsilon of one charge, as the mechanism states it."""
        cost = self.mechanism.cost
        return cost.lifetime if self.keep_days else cost.epsilon

    @property
    def day(self) -> float:
        """Epsilon of any 24 hours, as `ldp registry check` prints it."""
        length = timedelta(days=self.keep_days or self.ask.days)
        return round_up(Fraction(self.price) * periods_touched(DAY, length))

    @property
    def life(self) -> float:
        """Epsilon until the end date."""
        return round_up(Fraction(self.price) * self.charges)

    def registry_lines(self) -> str:
        """Return the group and the metric of metrics.toml."""
        ask, name = self.ask, self.ask.name
        memoised = f'memoise = "epoch"\nepoch = "{self.keep_days}d"\n' if self.keep_days else ""
        return (
            f'\n[group.{name}]\nwindow = "{ask.days}d"\nwindow_epsilon = {self.price!r}\n'
            f"lifetime_epsilon = {self.life!r}\n\n[metric.{name}]\nversion = 1\n"
            f'group = "{name}"\ndescription = {quoted(ask.about)}\n'
            f"owners = [{', '.join(map(quoted, ask.owners))}]\nexpires = {ask.until}\n"
            + (f"planned_for = {quoted(self.planned_for)}\n" if self.planned_for else "")
            + registry_lines(self.mechanism)
            + ask.question.entry(name, self.mechanism)[0]
            + memoised
        )


@dataclass(frozen=True)
class RefusedQuestion:
    """Question that does not fit: what it would take at `best` (None: no epsilon is enough), the
    `day` and the `life` that are left for it, and the answer that these pay, if any."""

    ask: Ask
    best: PlannedMetric | None
    day: float
    life: float
    affordable: PlannedMetric | None = None

    @property
    def reason(self) -> str:
        """Why it does not fit."""
        if self.best is None:
            return f"no epsilon up to {EPSILONS[-1]:.3g} is enough"
        dear = [
            f"{cost:.3g} {of}, where {left:.3g} is left"
            for cost, left, of in (
                (self.best.day, self.day, "in any 24 hours"),
                (self.best.life, self.life, "for life"),
            )
            if cost > left
        ]
        return "it takes " + " and ".join(dear)


@dataclass(frozen=True)
class Portfolio:
    """Questions of a `product` that are `accepted`, and those that are `refused`."""

    product: Product
    accepted: tuple[PlannedMetric, ...]
    refused: tuple[RefusedQuestion, ...]

    @property
    def life(self) -> float:
        """Epsilon of a person until the last end date."""
        return exact_sum(answer.life for answer in self.accepted)

    @property
    def day(self) -> float:
        """Epsilon of a person in any 24 hours."""
        return exact_sum(answer.day for answer in self.accepted)

    def files(self) -> dict[str, str]:
        """Return metrics.toml and the files that it names: name -> text."""
        product = self.product
        head = f"[product]\nname = {quoted(product.name)}\nlifetime_epsilon = {self.life!r}\n"
        files = {"metrics.toml": head + "".join(map(PlannedMetric.registry_lines, self.accepted))}
        for answer in self.accepted:
            files |= answer.ask.question.entry(answer.ask.name, answer.mechanism)[1]
        return files

    def to_dict(self) -> dict[str, Any]:
        """Return the portfolio as JSON-ready data."""
        return {
            "day_epsilon": self.day,
            "lifetime_epsilon": self.life,
            "accepted": [_as_dict(answer) for answer in self.accepted],
            "refused": [
                {
                    "question": refusal.ask.name,
                    "reason": refusal.reason,
                    "affordable": refusal.affordable and _as_dict(refusal.affordable),
                }
                for refusal in self.refused
            ],
        }


def _as_dict(answer: PlannedMetric) -> dict[str, Any]:
    return {
        "question": answer.ask.name,
        **answer.mechanism.parameters(),
        "epoch_days": answer.keep_days,
        "charges": answer.charges,
        "day_epsilon": answer.day,
        "lifetime_epsilon": answer.life,
        "error": answer.error,
        "error_is": answer.ask.question.error_name,
        "within": answer.ask.within,
        "planned_for": answer.planned_for,
    }
