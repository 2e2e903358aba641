"""The distribution of a mean sketch's error: noise, and collisions.

A candidate's cells, one in each row, are named by S of the n reports. S is a sum over reports of
independent coins, "untouched" except for the reports whose value shares the cell, which are
"touched". Whether a value shares a cell is decided once a row, with probability 1 / width, for all
its reports there: with few rows, or heavy values, the error is skewed, and a normal tail far too
light. So the distribution is computed: its characteristic function in closed form, inverted by FFT.
A value that many hold does not collide with itself, and its reports have another noise: its
distribution is a different one.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp.arrays import Floats, Ints
from ldp.protocol.channel import Channel
from ldp.tables.estimates import Normal

SMALLEST_P = 1e-15
"""Smallest p-value: smaller ones are below the rounding of the FFT."""
_REACH = 40.0
_MOST_POINTS, _RANDOM_POINTS = 1 << 20, 1 << 13
_THETA = np.geomspace(1e-9, 30.0, 400)
"""Exponents at which Chernoff's bound is tried."""


@dataclass(frozen=True, eq=False)
class ErrorLaw:
    """P(S >= s) on an even grid: tails[i] at `start + i * step`, falling from 1 to 0.

    `skewed` takes the squares that no known value explains as one heavy value, `mild` as many small
    ones. The true distribution lies between. So each side of an interval uses the one that reaches
    further there. `mean` and `std` are those of S.
    """

    start: float
    step: float
    skewed: Floats
    mild: Floats
    mean: float
    std: float

    def p_value(self, named_counts: Ints) -> Floats:
        """Return the probability that `named_counts` or more reports name a value that nobody
        holds: float64, shape of `named_counts`."""
        return self._above(named_counts - 0.5)

    def upper(self, p: float) -> float:
        """Return the d for which S is more than d standard errors above its mean with probability
        p."""
        return self._at(self.skewed, max(p, SMALLEST_P))

    def lower(self, p: float) -> float:
        """Return the d for which S is more than d standard errors below its mean with probability
        p."""
        return -self._at(self.mild, 1 - max(p, SMALLEST_P))

    def tail(self, errors: Floats) -> Floats:
        """Return the probability that S exceeds its mean by so many standard `errors`."""
        return self._above(self.mean + errors * self.std)

    def _above(self, places: Any) -> Floats:
        grid = self.start + self.step * np.arange(self.skewed.size)
        p: Floats = np.interp(places, grid, self.skewed)
        return np.clip(p, SMALLEST_P, 1.0)

    def _at(self, tail: Floats, p: float) -> float:
        place = np.interp(-p, -tail, np.arange(tail.size))
        return float((self.start + self.step * place - self.mean) / self.std)


def law_of_random_cells(cells: Floats, draws: int) -> ErrorLaw | Normal:
    """Return the distribution of the sum of `draws` cells that are drawn at random from `cells`, in
    standard deviations around its mean. A candidate's product with residuals is such a sum, because
    its hashes are random. By FFT of the cells' own distribution, in steps of
    2 REACH / RANDOM_POINTS. For cells that are all alike, which have no such distribution, return a
    normal one."""
    centred = cells - cells.mean()
    step = 2 * _REACH / _RANDOM_POINTS * max(math.sqrt(draws * float(np.mean(centred**2))), 1e-300)
    half = _RANDOM_POINTS // 2
    places = np.clip(np.rint(centred / step).astype(np.int64), -half + 1, half - 1)
    chance = np.bincount(places % _RANDOM_POINTS, minlength=_RANDOM_POINTS) / places.size
    mass = np.fft.fftshift(np.fft.irfft(np.fft.rfft(chance) ** draws, _RANDOM_POINTS))
    tail = _tail_of(mass)
    mean = draws * float(places.mean())
    std = math.sqrt(draws * float(places.var()))
    if not std:
        return Normal()
    return ErrorLaw(start=-half - 0.5, step=1.0, skewed=tail, mild=tail, mean=mean, std=std)


@dataclass(frozen=True, kw_only=True, eq=False)
class Collisions:
    """Values that share cells with a candidate, as estimated from a table of `reports` reports.

    `rows`, `width`: of the sketch. `heavy`: counts of values whose collisions are counted one by
    one. `small_squares`: sum of squared counts of the other known values, whose many collisions are
    normal in sum. `unknown`: sum of squared counts that no known value explains. `unknown_most`:
    the largest count that one such value can have.
    """

    channel: Channel
    reports: int
    rows: int
    width: int
    heavy: Sequence[float] = ()
    small_squares: float = 0.0
    unknown: float = 0.0
    unknown_most: float = math.inf

    def law(self, holders: float = 0.0, *, is_heavy: bool = False) -> ErrorLaw:
        """Return the distribution of S for a value with `holders` holders. `is_heavy`: their number
        is one of `heavy`.

        With z = e**(it), the ratio of coins R(t) = (1 - p + p z) / (1 - q + q z), k rows, m
        columns, c holders of the value itself and counts x of the heavy values that are others:

            phi(t) = (1 - q + q z)**n  R**c  (1 + (R - 1)/m)**(n - c - all x)  exp(small part)
                     product over x of [1 + (e**((R - 1) x / k) - 1) / m]**k

        Every factor is taken around its mean. So no digits are lost however many reports there are.
        """
        grid, gain = self._grid, self.channel.gain
        among = self.reports * (float(self.channel.untouched) + gain / self.width)
        mean = among + holders * gain * (1 - 1 / self.width)
        rest = self.reports - math.fsum(self.heavy) - (0.0 if is_heavy else holders)
        log_phi = self.reports * grid.coins + self._lumps + holders * grid.holder
        if is_heavy:
            log_phi -= self._lump(holders)
        log_phi += self.small_squares / self.rows * grid.normal
        few = self._others(rest - self._single, math.floor)
        skewed = log_phi + few + self._lump(self._single)
        mild = log_phi + self._others(rest, math.ceil)
        mild += self.unknown / self.rows * grid.normal
        return ErrorLaw(
            start=grid.start(mean) - grid.step / 2,
            step=grid.step,
            skewed=grid.tail(skewed, mean),
            mild=grid.tail(mild, mean),
            mean=mean,
            std=self._variance(holders, holders**2 if is_heavy else 0.0) ** 0.5,
        )

    @cached_property
    def _single(self) -> float:
        """Count of the single value that the upper tail takes `unknown` as: the worst case."""
        return min(math.sqrt(self.unknown), self.unknown_most, float(self.reports))

    def _variance(self, holders: float = 0.0, square: float = 0.0) -> float:
        """Return the variance of S for a value with `holders` holders. `square`: the part of the
        value itself in the sums of squares."""
        p, q = self.channel.chances
        others = self.reports - holders
        touching = holders + others / self.width
        noise = self.reports * q * (1 - q) + touching * (p * (1 - p) - q * (1 - q))
        squares = math.fsum(x**2 for x in self.heavy) + self.small_squares + self.unknown
        collisions = others + (squares - square) / self.rows
        return noise + collisions * self.channel.gain**2 * (1 - 1 / self.width) / self.width

    @cached_property
    def _grid(self) -> "_Grid":
        q = float(self.channel.untouched)
        noise = self.reports * q * (1 - q)
        reach = max(_REACH * self._variance() ** 0.5, self._reach())
        step = max(1.0, np.floor(noise**0.5 / 4), np.ceil(2 * reach / _MOST_POINTS))
        points = min(1 << int(np.ceil(np.log2(2 * reach / step + 64))), _MOST_POINTS)
        return _Grid(self.channel, self.width, step, points)

    @cached_property
    def _lumps(self) -> NDArray[np.complex128]:
        """Logarithm of the factors of all heavy values: shape (points / 2 + 1,)."""
        lumps = np.zeros(self._grid.t.size, dtype=np.complex128)
        for count in self.heavy:
            lumps += self._lump(count)
        return lumps

    def _others(self, number: float, whole: Callable[[float], int]) -> NDArray[np.complex128]:
        """Return the logarithm of the factor of a `number` of reports of values that few hold.
        Where it is below 0, estimates add to more than the reports, and S around its mean is no
        whole number, at which the FFT would oscillate: it is shifted to one, as `whole` rounds."""
        surplus = self.channel.gain * max(0.0, -number) / self.width
        shift = 1j * self._grid.t * (surplus - whole(surplus))
        return np.asarray(max(0.0, number) * self._grid.other + shift)

    def _lump(self, count: float) -> NDArray[np.complex128]:
        """Return the logarithm of the factor of a value with this count."""
        grid = self._grid
        collide = np.expm1(grid.excess * (count / self.rows)) * (1 / self.width)
        centre = 1j * grid.t * (self.channel.gain * count / self.width)
        return np.asarray(self.rows * np.log1p(collide) - centre)

    def _reach(self) -> float:
        """Return the distance above its mean that S exceeds with probability SMALLEST_P at most:
        where noise is little and collisions are rare, that can be many standard errors. Chernoff's
        bound, P(S >= s) <= e**(K(x) - x s) for every x > 0, with K(x) the logarithm of phi(-ix),
        the formula of `law`."""
        (p, q), x = self.channel.chances, _THETA
        lumps = [*self.heavy, self._single]
        excess = (p - q) * np.expm1(x) / (1 + q * np.expm1(x))
        rest, share = max(0.0, self.reports - math.fsum(lumps)), (p - q) / self.width
        cumulant = self.reports * (np.log1p(q * np.expm1(x)) - q * x)
        cumulant += rest * (np.log1p(excess / self.width) - share * x)
        cumulant += self.small_squares / (self.rows * self.width) * ((p - q) * x) ** 2 / 2
        for count in lumps:
            collides = excess * count / self.rows - math.log(self.width)
            cumulant += self.rows * np.logaddexp(math.log1p(-1 / self.width), collides)
            cumulant -= share * count * x
        return float(((cumulant - math.log(SMALLEST_P)) / x).min())


class _Grid:
    """Grid of the t at which a characteristic function is taken, and logarithms of its factors for
    one report, around their means."""

    def __init__(self, channel: Channel, width: float, step: float, points: int) -> None:
        p, q = channel.chances
        self.step, self.points = step, points
        self.t = t = 2 * np.pi * np.arange(points // 2 + 1) / (points * step)
        # at pi a coin of 1/2 has no logarithm
        angle = np.minimum(t, np.pi - 1e-6)
        turn = -2 * np.sin(angle / 2) ** 2 + 1j * np.sin(angle)  # e**(it) - 1
        self.excess = (p - q) * turn / (1 + q * turn)
        self.coins = _log1p(q * turn) - 1j * t * q
        self.holder = _log1p(self.excess) - 1j * t * (p - q)
        self.other = _log1p(self.excess * (1 / width)) - 1j * t * ((p - q) / width)
        self.normal = -(((p - q) * t) ** 2) * (1 - 1 / width) / (2 * width)

    def start(self, mean: float) -> float:
        """Return the first point of the grid around a mean."""
        return float(np.floor(mean - self.points * self.step / 2))

    def tail(self, log_phi: NDArray[np.complex128], mean: float) -> Floats:
        """Return P(S >= s) at the points of the grid, and 0 after them: shape (points + 1,)."""
        shifted = np.exp(log_phi + 1j * self.t * (mean - self.start(mean)))
        return _tail_of(np.fft.irfft(shifted.conj(), self.points))


def _tail_of(mass: Floats) -> Floats:
    """Return the sums of `mass` from each point on, and 0 after the last: falling, from 0 to 1."""
    falling = np.append(mass[::-1].cumsum()[::-1], 0.0)
    return np.minimum.accumulate(np.clip(falling, 0.0, 1.0))


def _log1p(z: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """Return log(1 + z), exact to the last digits where z is small. Numpy's real part is not."""
    x, y = z.real, z.imag
    return np.asarray(np.log1p(x * (2 + x) + y * y) / 2 + 1j * np.arctan2(y, 1 + x))
