"""Draw whole reports of RAPPOR with small filters, by cohort and pattern instead of one by one."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ldp import Rappor, bulk
from ldp.arrays import Ints
from ldp.decoding.report_patterns import random_filter, report_law
from ldp.protocol.bloom import PolynomialBloom
from ldp.tables.joint_table import empty_builder
from ldp.tables.patterns import Patterns


def draw_patterns(
    mechanism: Rappor, values: Sequence[str], counts: Ints, generator: np.random.Generator
) -> Patterns:
    """Return the patterns of one report of each of `counts` people for each of the `values`.

    The cohort of each person is drawn. Then it is drawn how many of the people with one filter send
    each report.
    """
    assert isinstance(mechanism.addressing, PolynomialBloom)
    cohorts, bits = mechanism.shape
    filters, _ = random_filter(bits, mechanism.hashes)
    number = np.zeros(1 << bits, np.uint8)
    number[filters] = np.arange(filters.size)
    places = bulk.bloom_map(mechanism.addressing, cohorts, values)
    codes = number[np.bitwise_or.reduce(np.left_shift(np.uint8(1), places), axis=2)]
    people = generator.multinomial(counts, np.full(cohorts, 1 / cohorts))
    law = report_law(mechanism, filters).T
    law /= law.sum(axis=1, keepdims=True)
    sent = np.zeros((cohorts, 1 << bits), np.int64)
    for cohort in range(cohorts):
        held = np.zeros(filters.size, np.int64)
        np.add.at(held, codes[:, cohort], people[:, cohort])
        sent[cohort] = generator.multinomial(held, law).sum(axis=0)
    rows, payloads = np.nonzero(sent)
    return Patterns(
        mechanism,
        rows.astype(np.uint32),
        payloads.astype(np.uint8)[:, None],
        sent[rows, payloads],
    )


def table_of(patterns: Patterns) -> Any:
    """Return the table that holds these whole reports.

    The table is doubled for every binary digit. At each digit the patterns whose count has it are
    added, so no pattern is repeated.
    """
    mechanism = patterns.mechanism
    total: Any = empty_builder(mechanism).build()
    for digit in reversed(range(int(patterns.counts.max(initial=0)).bit_length())):
        has_digit, builder = patterns.counts >> digit & 1 == 1, empty_builder(mechanism)
        builder.add_batch(patterns.rows[has_digit], patterns.payloads[has_digit])
        total = total + total + builder.build()
    return replace(total, whole=patterns)
