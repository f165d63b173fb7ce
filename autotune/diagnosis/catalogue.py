"""All signatures in order, and the first of them that a line holds."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from autotune.diagnosis.families import (
    cuda,
    efa,
    host,
    kernel,
    launcher,
    nccl,
    python,
    rendezvous,
    watchdog,
)
from autotune.diagnosis.signature import Signature, holds

_WORD = re.compile(r"\w+")

SIGNATURES: tuple[Signature, ...] = tuple(
    sorted(
        (
            *kernel.SIGNATURES,
            *launcher.SIGNATURES,
            *nccl.SIGNATURES,
            *efa.SIGNATURES,
            *cuda.SIGNATURES,
            *host.SIGNATURES,
            *python.SIGNATURES,
            *watchdog.SIGNATURES,
            *rendezvous.SIGNATURES,
        ),
        key=lambda signature: signature.role,
    )
)
"""The nearest to the root first, then the most specific: of a line, the first one counts."""


class _Text(NamedTuple):
    """One spelling of one signature."""

    text: str
    words: frozenset[str]
    signature: Signature


class Catalogue:
    """Signatures, indexed by a rare word of each text, so that most lines are passed over."""

    def __init__(self, signatures: Sequence[Signature] = SIGNATURES) -> None:
        self._texts = _by_word(signatures)
        self._named = {signature.name: signature for signature in signatures}
        self.order = {name: index for index, name in enumerate(self._named)}

    def named(self, name: str) -> Signature:
        """The signature of that name."""
        return self._named[name]

    def first(self, line: str) -> Signature | None:
        """The first signature that `line` holds, in whatever case."""
        line = " ".join(line.lower().split())
        words = set(_WORD.findall(line))
        found: Signature | None = None
        for word in words & self._texts.keys():
            for text in self._texts[word]:
                if text.words <= words and self.precedes(text.signature, found):
                    found = text.signature if holds(line, text.text) else found
        return found

    def precedes(self, one: Signature, other: Signature | None) -> bool:
        """Whether `one` counts more than `other`."""
        return other is None or self.order[one.name] < self.order[other.name]


def _by_word(signatures: Sequence[Signature]) -> Mapping[str, Sequence[_Text]]:
    """The texts of each word: every text is there once, by the word that the fewest others have.

    A text's parts are whole words of the line, so a line without them doesn't hold the text.
    """
    texts = [
        _Text(text.lower(), frozenset(_WORD.findall(text.lower())), signature)
        for signature in signatures
        for text in signature.texts
    ]
    uses = Counter(word for text in texts for word in text.words)
    result: defaultdict[str, list[_Text]] = defaultdict(list)
    for text in texts:
        result[min(text.words, key=lambda word: (uses[word], -len(word), word))].append(text)
    return dict(result)


CATALOGUE = Catalogue()
