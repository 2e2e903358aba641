"""List all studies of this package by name."""

from simulations.studies import apple, comparison, estimates, longitudinal, poisoning, rappor
from simulations.study import RESULTS as ALL
from simulations.study import Study

MODULES = (rappor, apple, comparison, poisoning, longitudinal, estimates)
STUDIES: dict[str, Study] = {study.name: study for module in MODULES for study in module.STUDIES}
RESULTS = ALL / "studies"
