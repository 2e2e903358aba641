"""What was charged: one row a charge, and their totals. Nothing is ever taken back."""

import sqlite3
from fractions import Fraction

from ldp.client.periods import length
from ldp.registry import Metric, Registry


def spending(
    connection: sqlite3.Connection, registry: Registry, group: str, now: int
) -> tuple[Fraction, Fraction]:
    """The epsilon that counts for a group, in all and in the window that ends now.

    It is charged for what it sent itself, for what its metrics sent in other groups, and for what
    nobody answers for any more: group and metric renamed or removed.
    """

    def total(source: str, *arguments: int) -> Fraction:
        query = f"SELECT budget, metric, epsilon, times FROM {source}"
        return sum(
            (
                times * Fraction(epsilon)
                for budget, name, epsilon, times in connection.execute(query, arguments)
                if group in _answering(registry, budget, name)
            ),
            Fraction(0),
        )

    since = now - length(registry.groups[group].caps.window)
    return total("totals"), total("charges WHERE at > ?", since)


def charge(connection: sqlite3.Connection, group: str, metric: Metric, at: int, times: int) -> None:
    """Writes a charge of so many prices, and adds it to the totals, so that a life of charges is a
    short sum."""
    if not times:
        return
    cost = group, metric.name, metric.price, times
    connection.execute(
        "INSERT INTO charges (budget, metric, epsilon, times, at) VALUES (?, ?, ?, ?, ?)",
        (*cost, at),
    )
    connection.execute(
        "INSERT INTO totals VALUES (?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET times = times + excluded.times",
        cost,
    )


def _answering(registry: Registry, budget: str, name: str) -> set[str]:
    """The groups that a charge counts for."""
    groups = {budget} & registry.groups.keys()
    if name in registry.metrics:
        groups.add(registry.metrics[name].group)
    return groups or set(registry.groups)
