"""A million reports at once: hashing, sampling and counting; takes half a second to load.

Importing the package loads all its files, which register the bulk code of the addressings.
"""

from importlib import import_module
from pkgutil import iter_modules

from ldp.bulk.addressing import NO_COLUMN, columns, count_sets, pick, points, scatter
from ldp.bulk.counting import (
    add_to_cells,
    count_bits,
    count_by_two,
    gather,
    gather_groups,
    negative_signs,
    sum_cells,
    sum_of_squares,
    walsh_hadamard,
)
from ldp.bulk.hashing import bloom_map, coefficients
from ldp.bulk.sampling import bernoulli_each, draw_steps, fit_subsets, packed_bernoulli

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = [
    "NO_COLUMN",
    "add_to_cells",
    "bernoulli_each",
    "bloom_map",
    "coefficients",
    "columns",
    "count_bits",
    "count_by_two",
    "count_sets",
    "draw_steps",
    "fit_subsets",
    "gather",
    "gather_groups",
    "negative_signs",
    "packed_bernoulli",
    "pick",
    "points",
    "scatter",
    "sum_cells",
    "sum_of_squares",
    "walsh_hadamard",
]
