"""Joint reports: several values in one report, so that they stay together in a shuffled store.

Source: Fanti, Pihur and Erlingsson 2016, "Building a RAPPOR with the Unknown", section 3: the joint
distribution of two variables needs reports that carry both.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from string import ascii_lowercase
from typing import Any

from ldp.errors import ParameterError
from ldp.mechanisms.addressing import Identity
from ldp.mechanisms.base import Case, Mechanism
from ldp.mechanisms.catalogue import from_parameters
from ldp.mechanisms.joint_base import JointMechanism, Part
from ldp.mechanisms.memoisation import MemoisedMechanism
from ldp.protocol.bloom import PolynomialBloom
from ldp.protocol.hashing import PolynomialRows, Value
from ldp.protocol.kinds import Sign
from ldp.protocol.md5_bloom import Md5Bloom

ADDRESSINGS = (Identity, PolynomialRows, PolynomialBloom, Md5Bloom)
"""Addressings in which every value touches a cell of every row."""
MOST_PARTS = 4
"""Largest number of parts: the cells of the joint distribution multiply with each."""


_RAPPOR = {"mechanism": "rappor", "bits": 4, "hashes": 2, "cohorts": 2, "seed": "08"}
_BLOOM = {**_RAPPOR, "f": 0.0, "p": 0.25, "q": 0.75}
_AB = {"mechanism": "unary", "categories": [*"ab"], "epsilon": 1.0}
_XYZ = {**_AB, "categories": [*"xyz"]}
_HASHED = {"mechanism": "local-hashing", "epsilon": 1.0, "rows": 2, "seed": "0a"}
_KINDS = ({**_AB, "mechanism": "rr"}, {**_XYZ, "mechanism": "subset"}, _HASHED)
"""Parts of examples."""


@dataclass(frozen=True, kw_only=True)
class JointReport(JointMechanism):
    """Joint report of a tuple of values, each through its own mechanism with fresh noise.

    Report: the bodies of the parts' reports, one after the other. Rows (cohorts) and noise of the
    parts are independent. The epsilons add.

    >>> from ldp import UnaryEncoding
    >>> banner = UnaryEncoding(categories=("no", "yes"), epsilon=1.0)
    >>> both = JointReport(of=(banner, banner))
    >>> round(both.cost.epsilon, 9), [name for name, _ in both.parts]
    (2.0, ['a', 'b'])
    >>> len(both.encoder().encode(("yes", "no")))
    12

    `of`: 2 to 4 mechanisms about one value each, or their `parameters()`: RAPPOR, unary encoding,
    CMS, randomised response, subset selection, local hashing, projective geometry, Hadamard
    response. Memoised responses are not possible: see docs/mechanisms/joint.md. Raises
    ParameterError for anything else.
    """

    name = "joint"
    wire_id = 32
    needs_whole = True
    answers = "pairs"
    cases = (
        Case(("lol", "a"), ("brb", "b"), ("afk", "b"), of=(_BLOOM, _AB)),
        Case(("a", "x", "b"), ("b", "z", "a"), of=(_AB, _XYZ, _AB)),
        Case(("a", "x", "lol"), ("b", "z", "brb"), of=_KINDS),
    )

    of: tuple[Mechanism, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.of, list | tuple) or not 2 <= len(self.of) <= MOST_PARTS:
            raise ParameterError(f"a joint report is of 2 to {MOST_PARTS} mechanisms")
        object.__setattr__(self, "of", tuple(map(_part, self.of)))

    def parameters(self) -> dict[str, Any]:
        return {"mechanism": self.name, "of": [part.parameters() for part in self.of]}

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return tuple(map(Part, ascii_lowercase, self.of))

    def part_values(self, value: Any) -> tuple[Value, ...]:
        if not isinstance(value, list | tuple) or len(value) != len(self.of):
            raise ParameterError(f"a value must be a tuple of {len(self.of)} values")
        return tuple(value)

    @property
    def placeholder(self) -> Any:
        """Tuple of the parts' values for no record. It is None if a part has none."""
        values = tuple(part.placeholder for part in self.of)
        return None if None in values else values


def _part(mechanism: Any) -> Mechanism:
    """Return a part from a mechanism or its parameters. Raises ParameterError unless it can be
    one."""
    part = from_parameters(mechanism) if isinstance(mechanism, Mapping) else mechanism
    if (
        not isinstance(part, Mechanism)
        or not part.is_whole
        or part.needs_shuffler
        or part.kind is Sign
        or (isinstance(part, MemoisedMechanism) and not part.kind.is_bitwise)
        or not isinstance(part.addressing, ADDRESSINGS)
        or (isinstance(part.addressing, Identity) and part.addressing.untouching)
    ):
        name = getattr(part, "name", "no mechanism")
        raise ParameterError(
            "a joint report is of rappor, unary, cms, rr, subset, local-hashing, pgr or hadamard "
            f"about one answer (no at_most), not {name!r}"
        )
    return part
