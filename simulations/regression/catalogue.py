"""List all studies of this package by name."""

from simulations.regression import (
    boosted,
    boston,
    counts,
    drugs,
    kalaja,
    local,
    piazza,
    robust,
    selection,
    split,
    wang,
)
from simulations.study import RESULTS as ALL
from simulations.study import Study

MODULES = (counts, boston, selection, wang, kalaja, piazza, local, robust, split, drugs, boosted)
STUDIES: dict[str, Study] = {study.name: study for module in MODULES for study in module.STUDIES}
RESULTS = ALL / "regression"
