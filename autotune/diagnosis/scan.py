"""From one log to its findings. Pure, and linear in the log's length."""

import re
from dataclasses import replace

from autotune.diagnosis.catalogue import CATALOGUE
from autotune.diagnosis.lines import Line, lines
from autotune.diagnosis.log import Finding, Log
from autotune.diagnosis.progress import Progress, progress
from autotune.diagnosis.signature import Role, Signature
from autotune.diagnosis.torchrun import Summary

LONGEST_QUOTE = 300
"""Characters of a line that are shown."""
MOST_KEPT = 1000
"""Findings, ranks and the like that are kept of one log; a real one has fewer."""
_WRAPPED_FROM = 40
"""Characters; what wraps lines (terminals, collectors) does so later."""
_OVERLAP = 300
"""Characters at both sides of a line's end that may hold one text."""
_TRACEBACK = "Traceback (most recent call last)"
_EXCEPTION = re.compile(r" {0,16}[A-Za-z_][\w.]{0,200}(?:: |:?$)")


class Scan:
    """Reads one log; what it says is in the public attributes."""

    def __init__(self, log: Log) -> None:
        self.ranks: set[int] = set() if log.rank is None else {log.rank}
        """That have certainly written something."""
        self.progress: list[Progress] = []
        self._log = log
        self._found: dict[tuple[str, int | None, bool, Role], Finding] = {}
        self._summary = Summary()
        self._previous: dict[int | None, tuple[Line, Signature | None]] = {}
        self._tracebacks: dict[int | None, Line] = {}
        for first, text in log.parts:
            for line in lines(text, first):
                self._take(line)
        for rank, line in self._tracebacks.items():
            self._note(line, CATALOGUE.named("exception"), rank)

    @property
    def findings(self) -> list[Finding]:
        """The first line of each kind and rank, in the log's order."""
        return sorted(self._found.values(), key=lambda finding: finding.line)

    def _take(self, line: Line) -> None:
        if line.is_nccl_note:
            return
        self._summary.take(line)
        rank = self._rank(line)
        if _TRACEBACK in line.text:
            if len(self._tracebacks) < MOST_KEPT:
                self._tracebacks[rank] = line
            return
        signature = CATALOGUE.first(line.text)
        self._note(line, signature, rank)
        self._note_wrapped(line, signature, rank)
        self._note_exception(line, signature, rank)
        said = progress(line.text, rank)
        if said and len(self.progress) < MOST_KEPT:
            self.progress.append(said)

    def _rank(self, line: Line) -> int | None:
        """Whose line it is: what it says itself, else whose log it is."""
        for rank in (self._summary.rank, line.rank, self._log.rank):
            if rank is not None:
                if line.is_rank_sure and len(self.ranks) < MOST_KEPT:
                    self.ranks.add(rank)
                return rank
        return None

    def _note(self, line: Line, signature: Signature | None, rank: int | None) -> None:
        if signature is None or len(self._found) >= MOST_KEPT:
            return
        in_passing = signature.role is Role.CAUSE and line.is_aside
        finding = Finding(
            signature=signature,
            role=Role.CLUE if in_passing else signature.role,
            log=self._log.name,
            line=line.number,
            quote=cut(line.text),
            rank=rank,
            host=line.host or self._summary.host,
            is_root=self._summary.is_root,
        )
        key = (signature.name, rank, finding.is_root, finding.role)
        self._found.setdefault(key, finding)

    def _note_wrapped(self, line: Line, signature: Signature | None, rank: int | None) -> None:
        """A text that begins on the rank's line before and ends on this one."""
        previous, known = self._previous.get(rank, (None, None))
        if len(self._previous) < MOST_KEPT or rank in self._previous:
            self._previous[rank] = (line, signature)
        if previous is None or len(previous.text) < _WRAPPED_FROM:
            return
        for space in ("", " "):
            text = f"{previous.text[-_OVERLAP:]}{space}{line.text[:_OVERLAP].lstrip()}"
            whole = CATALOGUE.first(text)
            if whole and CATALOGUE.precedes(whole, known) and CATALOGUE.precedes(whole, signature):
                self._note(replace(previous, text=text), whole, rank)

    def _note_exception(self, line: Line, signature: Signature | None, rank: int | None) -> None:
        """The line that ends a traceback, if no signature says more of it."""
        start = self._tracebacks.get(rank)
        if start is None or _indent(line.text) > _indent(start.text):
            return
        del self._tracebacks[rank]
        if signature is None and _EXCEPTION.match(line.text):
            self._note(line, CATALOGUE.named("exception"), rank)


def cut(text: str, limit: int = LONGEST_QUOTE) -> str:
    """`text` on one line, at most `limit` characters."""
    text = " ".join(text[: 2 * limit].split())
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())
