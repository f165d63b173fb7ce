"""Writes NCCL_ALGO and NCCL_PROTO in the form that a version of NCCL understands."""

from collections.abc import Mapping

from autotune.errors import FieldError
from autotune.space.nccl.algorithms import Algorithm, Protocol
from autotune.space.nccl.collectives import Collective
from autotune.space.nccl.version import NcclVersion

PER_FUNCTION_FROM = NcclVersion(2, 24)
"""From here on a list may be given for each function, and unknown words are errors.

Source: NCCL v2.24.3 and v2.30.7, parseList in src/graph/tuning.cc.
"""

_DEFAULT = (
    Algorithm.RING,
    Algorithm.TREE,
    Algorithm.COLLNET_DIRECT,
    Algorithm.COLLNET_CHAIN,
    Algorithm.NVLS,
    Algorithm.NVLS_TREE,
    Algorithm.PAT,
)


def nccl_algo(version: NcclVersion, wanted: Mapping[Collective, Algorithm]) -> str:
    """The value of NCCL_ALGO under which each collective in `wanted` has that algorithm only.

    From 2.24 a list of everything comes first: it changes nothing up to 2.30, and from 2.31, where
    a set NCCL_ALGO first switches all off, it switches the other collectives back on
    (ncclTuningCostModelInit in src/tuning/cost_model.cc). Before 2.24 there is one list for all
    collectives, so `wanted` may hold one algorithm only; what becomes of the others is the
    caller's business.
    """
    if version < PER_FUNCTION_FROM:
        return _one("NCCL_ALGO", version, {a.token for a in wanted.values()})
    default = ",".join(algorithm.token for algorithm in _DEFAULT)
    return ";".join([default, *_entries({c: a.token for c, a in wanted.items()})])


def nccl_proto(version: NcclVersion, wanted: Mapping[Collective, Protocol]) -> str:
    """The value of NCCL_PROTO under which each collective in `wanted` has that protocol only.

    From 2.24 without a list for the rest, unlike NCCL_ALGO: a set NCCL_PROTO switches nothing off
    in any version, and a list that names LL128 would skip NCCL's check of it up to 2.30.
    """
    if version < PER_FUNCTION_FROM:
        return _one("NCCL_PROTO", version, {p.value for p in wanted.values()})
    return ";".join(_entries({c: p.value for c, p in wanted.items()}))


def function_token(collective: Collective) -> str:
    """The collective's name in both variables, where case doesn't matter."""
    return collective.value.replace("_", "")


def _entries(words: Mapping[Collective, str]) -> list[str]:
    return [f"{function_token(c)}:{words[c]}" for c in Collective if c in words]


def _one(name: str, version: NcclVersion, words: set[str]) -> str:
    if len(words) != 1:
        rule = f"can't differ by collective in NCCL {version}; 2.24 and later can"
        raise FieldError(name, ",".join(sorted(words)), rule)
    return words.pop()
