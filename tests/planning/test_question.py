"""A kind of question is one class: a toy is planned, compared and written as others are."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from ldp.errors import ParameterError
from ldp.mechanisms import Mechanism, RandomizedResponse
from ldp.planning.comparison import compare_question
from ldp.planning.numbers import Mean
from ldp.planning.portfolio import Product
from ldp.planning.question import KINDS, Curator, Files, Question, root_mean_square
from ldp.planning.values import Shares
from ldp.planning.word_questions import Words
from ldp.protocol.keys import SHARE, Key
from ldp.registry import Registry
from ldp.simulation import Population, draw_table

ANSWERS = ("active", "idle")
FILE = """
[product]
name = "shop"
users = 50_000
start = 2026-12-01
day_epsilon = 9.0
lifetime_epsilon = 50.0

[question.week]
ask = "Who used the app this week?"
active = 0.3
within = 0.01
every = "7d"
until = 2027-02-28
"""


@pytest.fixture
def kind() -> Iterator[type[Question]]:
    """Return the toy: the share of active people, which is the ratio of two counts of one
    report."""

    @dataclass(frozen=True, kw_only=True)
    class Active(Question):
        share: float
        key = "active"
        keys: ClassVar = {"active": Key(SHARE)}

        @classmethod
        def read(cls, keys: Mapping[str, Any], files: Files, **shared: Any) -> Question:
            return cls(**shared, share=keys["active"])

        def mechanisms(self) -> list[Mechanism]:
            return [RandomizedResponse(categories=ANSWERS, epsilon=self.epsilon)]

        def std_error(self, mechanism: Mechanism) -> float:
            return math.sqrt(float(mechanism.variance(self.users, self.share))) / self.users

        def simulate(
            self, mechanism: Mechanism, generator: np.random.Generator
        ) -> tuple[float, float]:
            active = round(self.users * self.share)
            counts, errors = np.array([active, self.users - active]), []
            for _ in range(400):
                table = draw_table(mechanism, ANSWERS, counts=counts, generator=generator)
                p, q = (float(x) for x in (mechanism.channel.touched, mechanism.channel.untouched))
                errors.append((table.counts[0, 0] - self.users * q) / (p - q) - active)
            return root_mean_square(np.array(errors) / self.users)

        def curator(self, generator: np.random.Generator, draws: int = 1000) -> Curator:
            shares = Shares(users=self.users, epsilon=self.epsilon, domain=2)
            curator = shares.curator(generator, draws)
            return Curator(
                mechanism=curator.mechanism,
                parameters={},
                std_error=curator.std_error / self.users,
                errors=curator.errors / self.users,
            )

        def entry(self, name: str, mechanism: Mechanism) -> tuple[str, Mapping[str, str]]:
            return f'categories = "{name}.txt"\n', {f"{name}.txt": "active\nidle\n"}

    yield Active
    del KINDS["active"]


@pytest.mark.exact
def test_a_kind_is_planned_for_and_written_to_a_registry(
    kind: type[Question], tmp_path: Path
) -> None:
    """The price is the least at which its error is as small as asked."""
    path = tmp_path / "questions.toml"
    path.write_text(FILE)
    portfolio = Product.load(path, date(2026, 12, 1)).answer()
    (answer,) = portfolio.accepted
    assert isinstance(answer.ask.question, kind)
    assert 0.9 * 0.01 < answer.error <= 0.01
    for name, text in portfolio.files().items():
        (tmp_path / name).write_text(text)
    metric = Registry.load(tmp_path / "metrics.toml").metric("week")
    assert metric.mechanism.parameters()["categories"] == [*ANSWERS]


@pytest.mark.statistical
def test_a_kind_is_compared(kind: type[Question]) -> None:
    """Each measured error is within 5.5 of its errors of the prediction.

    In 3 rows this fails falsely with probability 2e-7.
    """
    question: Any = kind(users=20_000, epsilon=1.0, share=0.3)  # type: ignore[call-arg]
    comparison = compare_question(question, delta=1e-6, generator=np.random.default_rng(1))
    for row in comparison.rows:
        assert abs(row.measured / row.predicted - 1) < 5.5 * row.sampling_error
    assert comparison.price > 10


@pytest.mark.exact
def test_a_class_without_a_key_is_no_kind() -> None:
    class Plain(Shares):
        pass

    assert Plain not in KINDS.values()
    assert list(KINDS) == ["values", "cross", "mean", "percentile", "words"]


@pytest.mark.exact
@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_question_without_people_has_typical_ones(share: float) -> None:
    """The values have Zipf frequencies; the mean square over them is that of one count each."""
    question = Shares(users=1_000, epsilon=1.0, domain=10, frequency=share)
    mechanism = question.best("rr")
    people = Population(question.categories, frequencies=np.full(10, 0.1))
    assert question.std_error(mechanism) == pytest.approx(
        question.with_(people=people).std_error(mechanism)
    )


@pytest.mark.exact
@pytest.mark.parametrize("epsilon", [0.7, 4.0, 14.0, 16.0, 40.0])
def test_the_largest_error_of_a_mean_is_that_of_any_number(epsilon: float) -> None:
    """With little noise it is the error of rounding, which no number on a step has."""
    question = Mean(users=1, epsilon=epsilon, bounds=(0.0, 1.0))
    for way in question.mechanisms():
        largest = max(way.mean_variance(place / 8_190) for place in range(8_191))
        assert question.std_error(way) == pytest.approx(math.sqrt(largest), rel=1e-3)


@pytest.mark.exact
def test_a_curator_finds_rarer_words_than_reports() -> None:
    """A curator's threshold is a few people, whatever their number."""
    question = Words(users=100_000, epsilon=2.0, letters=4)
    curator = question.curator(np.random.default_rng(1), 10)
    assert curator.std_error < 100 / question.users
    assert curator.std_error < min(map(question.std_error, question.mechanisms())) / 10
    with pytest.raises(ParameterError, match="users must be a whole number"):
        question.with_(users=0)
