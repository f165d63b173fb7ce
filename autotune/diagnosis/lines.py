"""A log as lines: without colours and launchers' prefixes, and with what those say of the rank.

Nothing here raises, whatever the text is, and every pattern is matched at one place, with an upper
limit on each repetition.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

LONGEST_LINE = 4096
"""Characters of a line that are read; what follows is passed over."""
_LONGEST_RAW = 2**16
_MOST_PREFIXES = 6

# Colours and cursor movements (ECMA-48), then every other control character but newline and tab.
_CONTROL = re.compile(r"\x1b\[[0-?]{0,64}[ -/]{0,16}[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_TIME = r"\d{4}-\d\d-\d\d[T_ ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_PREFIXES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\[rank ?(?P<rank>\d{1,6})\]:? ?",  # torchrun, PyTorch's C++ log
        r"\[[a-z_]{1,32}(?P<rank>\d{1,6})\]: ?",  # torchrun --tee: role and local rank
        r"\[\d{1,6},(?P<rank>\d{1,6})\]<std(?:out|err|diag)>: ?",  # mpirun --tag-output
        r"(?P<label>\d{1,5}):(?: |(?=[a-z\[]))",  # srun --label
        r"\([a-z_][\w.]{0,63} pid=\d{1,10}"
        r"(?:, ip=(?P<host>[0-9a-f.:]{2,45}))?(?:, rank=(?P<rank>\d{1,6}))?\) ?",  # Ray
        rf"\[?{_TIME}\]?(?: \| | ?- | )?",
        r"\[ {0,8}\d{1,9}\.\d{3,9}\] ",  # dmesg
        r"[a-z]{3} [ \d]\d \d\d:\d\d:\d\d (?P<host>[\w.-]{1,64}) kernel: ",  # syslog
        r"\| ",
    )
)
_RANK = re.compile(r"\[(?:[^\[\]]{1,80} )?Rank (\d{1,6})\]", re.IGNORECASE)
_NCCL_HOST = re.compile(r"(?:^|[\s:>])([A-Za-z0-9][\w.-]{0,63}):\d{1,10}:\d{1,10} \[\d{1,4}\] ")
_ASIDE = re.compile(
    r"\[[WI](?:\d{3,4} [\d:.]{8,20})? ?[\w./-]{1,80}:\d{1,6}\]"  # glog, as PyTorch's C++ has it
    r"|^[WI]\d{4} \d\d:\d\d:\d\d"  # glog, as torchrun has it
    r"|(?:^|[\s\[(|<-])(?i:warning|info|debug)(?=[\s:\])|>-]|$)"
    r"|(?<=\S)[\s\[(|<-](?i:warn)(?=[\s:\])|>-]|$)"  # at the start, the rest of NCCL WARN
    r"|\b\w{0,40}Warning: "
)
_HEAD = 160
"""Characters in which a line's rank, host and level are looked for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One line of a log."""

    number: int
    text: str
    """Without prefixes and control characters, as long as it is read."""
    rank: int | None = None
    is_rank_sure: bool = True
    """False for a bare number at the line's start, which may count steps as well."""
    host: str = ""

    @property
    def is_nccl_note(self) -> bool:
        """NCCL tells what it does, as it does when all is well."""
        head = self.text[:_HEAD].lower()
        return "nccl info" in head or "nccl trace" in head

    @property
    def is_aside(self) -> bool:
        """It is logged below the level of errors.

        NCCL's WARN is no such level: NCCL has no higher one for what ends a job.
        """
        head = self.text[:_HEAD]
        return "nccl warn" not in head.lower() and _ASIDE.search(head) is not None


def lines(text: str, first: int = 1) -> Iterator[Line]:
    """The lines of `text`, the first of them numbered `first`; empty ones are left out.

    What a carriage return overwrites in a terminal (progress bars) counts as lines of the same
    number.
    """
    for number, raw in enumerate(_split(text), first):
        for part in _ends(raw).split("\r"):
            cleaned = without_controls(part[:LONGEST_LINE]).rstrip()
            if cleaned:
                yield _line(number, cleaned)


def without_controls(text: str) -> str:
    """`text` without colours, cursor movements and control characters but newline and tab."""
    return text if text.isprintable() else _CONTROL.sub("", text)


def _split(text: str) -> Iterator[str]:
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield text[start:end]
        start = end + 1


def _ends(raw: str) -> str:
    """`raw`, or both its ends if it is longer than anybody writes."""
    half = _LONGEST_RAW // 2
    return raw if len(raw) <= _LONGEST_RAW else f"{raw[:half]}\r{raw[-half:]}"


def _line(number: int, text: str) -> Line:
    rank: int | None = None
    label: int | None = None
    host = ""
    for _ in range(_MOST_PREFIXES):
        match = next(filter(None, (prefix.match(text) for prefix in _PREFIXES)), None)
        if match is None or match.end() == len(text):
            break
        said = match.groupdict()
        rank = _number(said.get("rank"), rank)
        label = _number(said.get("label"), label)
        host = said.get("host") or host
        text = text[match.end() :]
    named = _RANK.search(text[:_HEAD])
    rank = _number(named[1] if named else None, rank)
    nccl = _NCCL_HOST.search(text[:_HEAD])
    return Line(
        number=number,
        text=text,
        rank=label if rank is None else rank,
        is_rank_sure=label is None or rank is not None,
        host=nccl[1] if nccl else host,
    )


def _number(text: str | None, otherwise: int | None) -> int | None:
    return int(text) if text else otherwise
