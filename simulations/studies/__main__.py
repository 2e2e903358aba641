"""Run studies, write their results and check their bars.

The command is `python -m simulations.studies [NAME ...]`. Without names it runs all studies; a
pattern such as 'estimates-*' names several.
"""

import sys

from simulations.studies.catalogue import RESULTS, STUDIES
from simulations.study import main

if __name__ == "__main__":
    sys.exit(main(STUDIES, RESULTS, str(__doc__)))
