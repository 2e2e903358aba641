"""From a table to estimates: the channel inverted, a standard error on every number."""

from collections.abc import Sequence
from dataclasses import replace

from ldp.decoding import direct, mean_sketch
from ldp.errors import DecodeError, ParameterError
from ldp.estimates import Estimates, Rule
from ldp.hashing import PolynomialRows
from ldp.mechanisms.base import Identity
from ldp.table import Table

METHODS = {"direct": direct.decode, "mean-sketch": mean_sketch.decode}
_NATURAL = {Identity: "direct", PolynomialRows: "mean-sketch"}


def decode(
    table: Table,
    candidates: Sequence[str] | None = None,
    *,
    method: str = "auto",
    rule: Rule | None = None,
) -> Estimates:
    """Counts of the candidates in `table`.

    `candidates` default to the table's dictionary or the mechanism's own categories; `method` is
    "auto", "direct" or "mean-sketch". Decoding again, with other candidates too, costs no privacy:
    it reads the table only. Raises DecodeError for an empty table, for no or repeated candidates,
    and for a method that does not fit the mechanism.
    """
    addressing = table.mechanism.addressing
    natural = _NATURAL.get(type(addressing))
    if natural is None:
        raise DecodeError("Bloom filters cannot be decoded by this version; basic RAPPOR can")
    if method not in ("auto", *METHODS):
        raise ParameterError(f"method must be one of auto, {', '.join(METHODS)}")
    if method not in ("auto", natural):
        raise DecodeError(f"method {method!r} does not fit a {table.mechanism.name} table")
    if candidates is None:
        candidates = table.dictionary
    if candidates is None and isinstance(addressing, Identity):
        candidates = addressing.categories
    if candidates is None:
        raise DecodeError(
            f"a {table.mechanism.name} table needs a list of candidates (--candidates FILE)"
        )
    if isinstance(candidates, str):
        raise DecodeError("candidates must be a list of values, not one text")
    if not candidates:
        raise DecodeError("the list of candidates is empty")
    if len(set(candidates)) < len(candidates):
        raise DecodeError("the list of candidates names a value twice")
    if not table.total:
        raise DecodeError("the table holds no reports")
    estimates = METHODS[natural](table, tuple(candidates), rule or Rule())
    described = {
        "method": natural,
        "mechanism": table.mechanism.name,
        "fingerprint": table.mechanism.fingerprint.hex(),
        "epsilon": table.mechanism.cost.epsilon,
        "windows": list(table.windows),
    }
    return replace(estimates, details={**described, **estimates.details})
