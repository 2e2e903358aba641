"""Run studies, write their results and check their bars.

The command is `python -m simulations.regression [NAME ...]`.
"""

import sys

from simulations.regression.catalogue import RESULTS, STUDIES
from simulations.study import main

if __name__ == "__main__":
    sys.exit(main(STUDIES, RESULTS, str(__doc__)))
