"""A million reports at once: hashing, sampling and counting. It takes half a second to load.

Importing the package loads all its files, which register the bulk code of the addressings.
"""

from importlib import import_module
from pkgutil import iter_modules

from ldp.bulk.counting import negative_signs as negative_signs
from ldp.bulk.counting import walsh_hadamard as walsh_hadamard
from ldp.bulk.hash_kernels import bloom_map as bloom_map
from ldp.bulk.point_kernels import NO_COLUMN as NO_COLUMN
from ldp.bulk.point_kernels import columns as columns
from ldp.bulk.point_kernels import pick as pick
from ldp.bulk.point_kernels import points as points
from ldp.bulk.point_kernels import scatter as scatter
from ldp.bulk.sampling import add_binomials as add_binomials
from ldp.bulk.sampling import bernoulli_each as bernoulli_each
from ldp.bulk.sampling import draw_steps as draw_steps
from ldp.bulk.sampling import fit_subsets as fit_subsets
from ldp.bulk.sampling import packed_bernoulli as packed_bernoulli

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
