"""Words that no dictionary lists, told twice in one report: by fragments, and whole.

What the fragments tell names the words worth testing; the whole word's part, whose noise had no
say in that, decides. A mechanism of this kind states how it tells of fragments and of words.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from ldp.errors import ParameterError
from ldp.mechanisms.joint_base import JointMechanism
from ldp.protocol.channel import require_epsilon
from ldp.protocol.hashing import Value, value_bytes
from ldp.protocol.spelling import Spelling

LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, kw_only=True)
class ToldWords(JointMechanism):
    """A part about fragments, which costs `fragment_epsilon` of `epsilon`, and one about the word,
    which costs the rest, because both tell of the whole word.

    `length` (10): letters of a word at most, a multiple of `fragment` (2); `alphabet`: 2 or more
    letters; `seed`: as in `MeanSketch`. Raises ParameterError. A value that is too long or has
    other letters is refused: `spelling.cleaned` makes a word of any text.
    """

    epsilon: float
    fragment_epsilon: float
    seed: str
    length: int = 10
    alphabet: str = LETTERS
    fragment: int = 2

    def __post_init__(self) -> None:
        for name in ("epsilon", "fragment_epsilon"):
            object.__setattr__(self, name, require_epsilon(getattr(self, name), name))
        if not self.fragment_epsilon < self.epsilon:
            raise ParameterError("fragment_epsilon must be below epsilon, the word takes the rest")
        if not isinstance(self.seed, str):
            raise ParameterError("seed must be text")
        value_bytes(self.seed)
        _ = self.spelling

    @cached_property
    def spelling(self) -> Spelling:
        """What words there are, and how they are cut into fragments."""
        return Spelling(self.length, self.alphabet, self.fragment)

    @property
    def none(self) -> Value:
        """The empty word."""
        return ""

    @property
    def word_epsilon(self) -> float:
        """What the word takes: epsilon - fragment_epsilon, rounded down to a double."""
        rest = Fraction(self.epsilon) - Fraction(self.fragment_epsilon)
        epsilon = float(rest)
        return math.nextafter(epsilon, 0) if Fraction(epsilon) > rest else epsilon
