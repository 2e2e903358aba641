"""A million reports at once: hashing, sampling and counting; takes half a second to load."""

from ldp.bulk.addressing import (
    NO_COLUMN,
    bloom_map,
    coefficients,
    columns,
    negative_signs,
    pick,
    points,
)
from ldp.bulk.counting import (
    count_bits,
    gather,
    gather_groups,
    scatter,
    sum_cells,
    sum_of_squares,
    walsh_hadamard,
)
from ldp.bulk.sampling import bernoulli_each, fit_subsets, packed_bernoulli, rounded

__all__ = [
    "NO_COLUMN",
    "bernoulli_each",
    "bloom_map",
    "coefficients",
    "columns",
    "count_bits",
    "fit_subsets",
    "gather",
    "gather_groups",
    "negative_signs",
    "packed_bernoulli",
    "pick",
    "points",
    "rounded",
    "scatter",
    "sum_cells",
    "sum_of_squares",
    "walsh_hadamard",
]
