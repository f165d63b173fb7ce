"""Reads NCCL_ALGO and NCCL_PROTO as a version of NCCL does.

Written from NCCL's parser alone, so that it can check what `grammar` writes and judge what people
wrote. It follows strtok_r: empty pieces are skipped, what follows a second colon is dropped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autotune.space.nccl.algorithms import FIRST_VERSION, Algorithm, Protocol
from autotune.space.nccl.collectives import Collective
from autotune.space.nccl.version import NcclVersion

_FUNCTIONS = {c.value.replace("_", ""): c for c in Collective}
_ONE_COLLNET_UNTIL = NcclVersion(2, 14)


@dataclass(frozen=True, kw_only=True)
class Enabled:
    """What the variables leave to one collective, before machine and message have their say."""

    algorithms: frozenset[Algorithm]
    protocols: frozenset[Protocol]
    ll128_unchecked: bool = False
    """LL128 was named, so that NCCL doesn't check whether it is safe."""


@dataclass(frozen=True, kw_only=True)
class Parsed:
    """The outcome of reading both variables; with an `error`, `collectives` is empty."""

    collectives: Mapping[Collective, Enabled] = field(default_factory=dict)
    error: str = ""
    """What NCCL prints after `NCCL WARN` before communicators fail to start."""


class _Refused(Exception):
    """NCCL refuses the value; the text is its message."""


@dataclass(kw_only=True)
class _Table:
    """For each collective the switched-on words; `named` are the collectives that a list named."""

    on: dict[Collective, set[str]]
    named: set[Collective] = field(default_factory=set)
    touched: set[Collective] = field(default_factory=set)


def parse(version: NcclVersion, environment: Mapping[str, str]) -> Parsed:
    """What `environment` enables for each collective. Only the two variables are looked at."""
    algo, proto = environment.get("NCCL_ALGO"), environment.get("NCCL_PROTO")
    if version < NcclVersion(2, 24):
        return _parse_plain(version, algo, proto)
    try:
        return _parse_per_function(version, algo, proto)
    except _Refused as refused:
        return Parsed(error=str(refused))


def _algorithm_words(version: NcclVersion) -> dict[str, Algorithm]:
    words = {
        algorithm.value.replace("_", ""): algorithm
        for algorithm in Algorithm
        if version >= FIRST_VERSION[algorithm]
    }
    if version < _ONE_COLLNET_UNTIL:
        words["collnet"] = Algorithm.COLLNET_CHAIN
    return words


_PROTOCOL_WORDS = {protocol.value: protocol for protocol in Protocol}


def _parse_plain(version: NcclVersion, algo: str | None, proto: str | None) -> Parsed:
    """Up to 2.23: one list for all, words that aren't known have no effect.

    Which collectives the algorithm list reaches changed. Source: NCCL src/graph/tuning.cc, "only
    disable algo for Allreduce" (2.7 to 2.16), "never disable ring for non-allreduce" (2.17, 2.18).
    """
    words = _algorithm_words(version)
    chosen = {words[w] for w in _plain_list(algo, list(words))}
    protocols = {_PROTOCOL_WORDS[w] for w in _plain_list(proto, list(_PROTOCOL_WORDS))}
    everything = set(words.values())
    collectives = {}
    for collective in Collective:
        algorithms = set(chosen)
        if collective is not Collective.ALL_REDUCE and version >= NcclVersion(2, 7):
            if version < NcclVersion(2, 17):
                algorithms = everything
            elif version < NcclVersion(2, 19):
                algorithms |= {Algorithm.RING}
        collectives[collective] = Enabled(
            algorithms=frozenset(algorithms),
            protocols=frozenset(protocols),
            ll128_unchecked=proto is not None and Protocol.LL128 in protocols,
        )
    return Parsed(collectives=collectives)


def _plain_list(text: str | None, words: Sequence[str]) -> set[str]:
    if text is None:
        return set(words)
    excludes = text.startswith("^")
    named = {w.lower() for w in text.removeprefix("^").split(",")} & set(words)
    return set(words) - named if excludes else named


def _parse_per_function(version: NcclVersion, algo: str | None, proto: str | None) -> Parsed:
    """From 2.24: entries for all or for one function, and no unknown words.

    From 2.31 a non-empty NCCL_ALGO starts from nothing, a row counts only for a function that some
    word was matched for (`forced`), and LL128 is always checked.
    Source: NCCL, parseList in src/graph/tuning.cc, from 2.31 in src/tuning/cost_model.cc.
    """
    is_new = version >= NcclVersion(2, 31)
    words = _algorithm_words(version)
    protocols = _Table(on={c: set(_PROTOCOL_WORDS) for c in Collective})
    algorithms = _Table(on={c: set() if is_new and algo else set(words) for c in Collective})
    _read(proto or "", list(_PROTOCOL_WORDS), protocols)
    _read(algo or "", list(words), algorithms)
    forced = set(Collective) if not is_new else protocols.named | algorithms.named
    collectives = {}
    for c in Collective:
        on = algorithms.on[c] if c in forced else set(words)
        proto_on = protocols.on[c] if c in forced else set(_PROTOCOL_WORDS)
        collectives[c] = Enabled(
            algorithms=frozenset(words[w] for w in on),
            protocols=frozenset(_PROTOCOL_WORDS[w] for w in proto_on),
            ll128_unchecked=not is_new and c in protocols.touched and "ll128" in proto_on,
        )
    return Parsed(collectives=collectives)


def _read(text: str, words: Sequence[str], table: _Table) -> None:
    position = 0
    for entry in text.split(";"):
        start, position = position, position + len(entry) + 1
        if entry:
            _read_entry(text, entry, start == 0, words, table)


def _read_entry(text: str, entry: str, is_first: bool, words: Sequence[str], table: _Table) -> None:
    pieces = [piece for piece in entry.split(":") if piece]
    if len(pieces) < 2 and not is_first:
        raise _Refused(f'All entries except the first must have a prefix: "{text}"')
    if not pieces:
        raise _Refused(f'NCCL crashes on an entry without a list: "{text}"')
    prefix = pieces[0] if len(pieces) > 1 else None
    elements = pieces[1] if len(pieces) > 1 else pieces[0]
    targets = [c for name, c in _FUNCTIONS.items() if prefix is None or prefix.lower() == name]
    for collective in targets:
        _apply(text, collective, elements, words, table)
    if not targets:
        raise _Refused(f'Unrecognized prefix token "{prefix}" when parsing "{text}"')


def _apply(
    text: str, collective: Collective, elements: str, words: Sequence[str], table: _Table
) -> None:
    excludes = elements.startswith("^")
    row = set(words) if excludes else set()
    table.touched.add(collective)
    for element in elements.removeprefix("^").split(","):
        if not element:
            continue
        if element.lower() not in words:
            raise _Refused(f'Unrecognized element token "{element}" when parsing "{text}"')
        table.named.add(collective)
        (row.discard if excludes else row.add)(element.lower())
    table.on[collective] = row
