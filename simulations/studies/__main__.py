"""`python -m simulations.studies [NAME ...]`: runs studies, all or those named ('estimates-*'
are several), writes results, checks bars."""

import sys

from simulations.studies.catalogue import RESULTS, STUDIES
from simulations.study import main

if __name__ == "__main__":
    sys.exit(main(STUDIES, RESULTS, str(__doc__)))
