"""What an app embeds: mechanisms, their encoders and a ledger; standard library, mmh3, bitarray.

>>> from ldp.client import CountMeanSketch
>>> mechanism = CountMeanSketch(epsilon=4.0, rows=65536, width=1024, seed="00ff")
>>> report = mechanism.encoder().encode("😂")   # bytes, randomised by the operating system
>>> len(report)
140
"""

from ldp.accounting import Caps, Cost, Ledger
from ldp.errors import BudgetExceeded, LdpError, ParameterError
from ldp.mechanisms import (
    CoinResponse,
    CountMeanSketch,
    Encoder,
    HadamardCountMeanSketch,
    Mechanism,
    RandomizedResponse,
    Rappor,
    SequenceFragmentPuzzle,
    UnaryEncoding,
)

__all__ = [
    "BudgetExceeded",
    "Caps",
    "CoinResponse",
    "Cost",
    "CountMeanSketch",
    "Encoder",
    "HadamardCountMeanSketch",
    "LdpError",
    "Ledger",
    "Mechanism",
    "ParameterError",
    "RandomizedResponse",
    "Rappor",
    "SequenceFragmentPuzzle",
    "UnaryEncoding",
]
