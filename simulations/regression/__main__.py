"""`python -m simulations.regression [NAME ...]`: runs studies, writes results, checks bars."""

import sys

from simulations.regression.catalogue import RESULTS, STUDIES
from simulations.study import main

if __name__ == "__main__":
    sys.exit(main(STUDIES, RESULTS, str(__doc__)))
