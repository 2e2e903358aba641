"""Words that no dictionary lists, reported in two parts: a fragment of the word, and the word.

The part about fragments selects the candidates. The part about whole words, whose noise is
independent of the selection, decides which are discoveries.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from ldp.errors import ParameterError
from ldp.mechanisms.joint_base import JointMechanism
from ldp.protocol.channel import convert, require_epsilon, round_down
from ldp.protocol.hashing import Value, value_bytes
from ldp.protocol.spelling import Spelling

LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, kw_only=True)
class UnlistedWords(JointMechanism):
    """Base of mechanisms with a part about fragments, which costs `fragment_epsilon`, and a part
    about the whole word, which costs the rest of `epsilon`.

    `length` (10): most letters of a word, a multiple of `fragment` (2). `alphabet`: 2 or more
    letters. `seed`: as in `MeanSketch`. Raises ParameterError, also for a value that is too long or
    has other letters: `spelling.clean` turns any text into a word.
    """

    epsilon: float
    fragment_epsilon: float
    seed: str = "00"
    length: int = 10
    alphabet: str = LETTERS
    fragment: int = 2
    answers = "words"

    def __post_init__(self) -> None:
        convert(self, epsilon=require_epsilon, fragment_epsilon=require_epsilon)
        if not self.fragment_epsilon < self.epsilon:
            raise ParameterError("fragment_epsilon must be below epsilon, the word takes the rest")
        if not isinstance(self.seed, str):
            raise ParameterError("seed must be text")
        value_bytes(self.seed)
        _ = self.spelling

    @cached_property
    def spelling(self) -> Spelling:
        """Set of all words, and their division into fragments."""
        return Spelling(self.length, self.alphabet, self.fragment)

    @property
    def placeholder(self) -> Value:
        """Empty word."""
        return ""

    @property
    def word_epsilon(self) -> float:
        """Epsilon of the whole word: epsilon - fragment_epsilon, rounded down to a double."""
        return round_down(Fraction(self.epsilon) - Fraction(self.fragment_epsilon))
