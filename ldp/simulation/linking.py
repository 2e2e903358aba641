"""An attacker who links: decides which streams of reports are of one device."""

import math

import numpy as np
from scipy.special import logsumexp

from ldp.arrays import Floats, Generator, Ints
from ldp.errors import ParameterError
from ldp.mechanisms import CatalogueMechanism
from ldp.registry.definitions import Memoise
from ldp.simulation.averaging import Advantage
from ldp.simulation.evidence import Evidence, MemoisedEvidence, evidence, log_shares
from ldp.simulation.fleet import Fleet
from ldp.simulation.populations import Population

_TIE = 1e-9
"""Least difference of logarithms that counts, so that the rounding of a machine decides nothing."""
_ODD = np.uint64(0x9E3779B97F4A7C15)


def linking(
    mechanism: CatalogueMechanism,
    population: Population,
    memoise: Memoise,
    reports: int,
    *,
    people: int,
    generator: Generator,
) -> tuple[Advantage, Advantage]:
    """Draw `people` people with the population's frequencies, draw two sets of `reports` reports
    from each device, and return two tests: whether the sets are of one device, whose value did not
    change, or of the devices of two people; and whether the value of one device changed between
    them. By epoch the two sets are of different epochs. Two sets of one epoch are linked as they
    are per value, and show no change."""
    shares = population.shares
    if np.count_nonzero(shares) < 2:
        raise ParameterError("a population of one value has nothing to tell")
    held = generator.choice(shares.size, people, p=shares)
    changed = _others(shares, held, generator)
    fleet = Fleet(mechanism, population.values, memoise, people, generator)

    def collect(value_indices: Ints) -> Evidence:
        reports_evidence = evidence(mechanism, population.values, memoise, people)
        for _ in range(reports):
            rows, payloads, _ = fleet.encode(np.arange(people), value_indices)
            reports_evidence.add(np.arange(people), rows, payloads)
        if memoise == "epoch":
            fleet.begin_epoch()
        return reports_evidence

    first, second, other = collect(held), collect(held), collect(changed)
    itself = np.arange(people)
    stranger = np.roll(itself, 1)
    person = [_same_device(first, second, of, shares) > _TIE for of in (itself, stranger)]
    change = [_changed(first, later, shares) > _TIE for later in (other, second)]
    return Advantage.of(*person), Advantage.of(*change)


def _same_device(first: Evidence, second: Evidence, of: Ints, shares: Floats) -> Floats:
    """Return ln of P(both | one device that holds one value) / P(both | two people), for the
    streams i of `first` and of[i] of `second`. With a permanent response one device has not only
    its value in both, but also its response and its row. Two people have the same row with
    probability 1 / rows."""
    log_prior = log_shares(shares)
    first_log, second_log = first.log_likelihoods(), second.log_likelihoods()[of]
    apart = logsumexp(log_prior + first_log, axis=1) + logsumexp(log_prior + second_log, axis=1)
    both = first_log + second_log
    if isinstance(first, MemoisedEvidence) and isinstance(second, MemoisedEvidence) and first.lasts:
        both = first.one_with(second, of).log_likelihoods() + math.log(first.cohorts)
        both[first.rows != second.rows[of]] = -np.inf
    return np.asarray(logsumexp(log_prior + both, axis=1) - apart)


def _changed(first: Evidence, second: Evidence, shares: Floats) -> Floats:
    """Return ln of P(both | the device's value v became another w) / P(both | it did not), where v
    has the frequencies of the population, and w those of all other values. With c(v, w) = 1 where
    both touch the same cells, which leaves a permanent response as it is,

        P = sum over v of s(v) / (1 - s(v)) [A(v) sum_w s(w) B(w) - A(v) B(v) sum_w c s(w)
            + AB(v) (sum_w c s(w) - s(v))].
    """
    log_prior, log_left = log_shares(shares), log_shares(shares) - np.log1p(-shares)
    first_log, second_log = first.log_likelihoods(), second.log_likelihoods()
    both, alike = first_log + second_log, np.broadcast_to(shares, first_log.shape)
    if isinstance(first, MemoisedEvidence) and isinstance(second, MemoisedEvidence) and first.lasts:
        both = first.one_with(second, np.arange(len(first_log))).log_likelihoods()
        alike = _alike(first.cells(), shares)
    any_other = logsumexp(log_left + first_log, axis=1) + logsumexp(log_prior + second_log, axis=1)
    not_other = logsumexp(log_left + np.log(alike) + first_log + second_log, axis=1)
    hidden = np.maximum(alike - shares, 0.0)
    hidden[hidden < 1e-12] = 0.0
    unseen = logsumexp(log_left + both, axis=1, b=hidden)
    less = np.log1p(-np.exp(np.minimum(not_other - any_other, -1e-15)))
    moved = np.logaddexp(any_other + less, unseen)
    return np.asarray(moved - logsumexp(log_prior + both, axis=1))


def _alike(cells: Ints, shares: Floats) -> Floats:
    """Return for every stream and value the share of values that touch the same cells there."""
    streams, values, _ = cells.shape
    keys = np.repeat(np.arange(streams, dtype=np.uint64), values)
    for column in np.sort(cells, axis=2).reshape(streams * values, -1).T:
        # modulo 2**64, as good as random
        keys = keys * _ODD + (column + 1).astype(np.uint64)
    _, group = np.unique(keys, return_inverse=True)
    sums = np.bincount(group.ravel(), weights=np.tile(shares, streams))
    return np.asarray(sums[group.ravel()].reshape(streams, values))


def _others(shares: Floats, held: Ints, generator: Generator) -> Ints:
    """Return for each value another one, drawn with the frequencies of the others."""
    others = generator.choice(shares.size, held.size, p=shares)
    while (same := np.flatnonzero(others == held)).size:
        others[same] = generator.choice(shares.size, same.size, p=shares)
    return others
