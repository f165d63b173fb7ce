"""A line of a log, taken apart into NCCL's messages. Linear in the line's length, no regex."""

from dataclasses import dataclass

LONGEST_LINE = 4096
"""Characters; NCCL's own lines have at most 1024."""
_LONGEST_ORIGIN = 768
_ORIGIN_WORDS = 12
_LEVELS = ("INFO", "WARN", "TRACE")
_MARK = "NCCL "


@dataclass(frozen=True, slots=True)
class Message:
    """One message, or a line that isn't one (level is empty)."""

    process: str
    """host:pid; empty when the line doesn't say."""
    thread: str
    """host:pid:tid; empty when the line doesn't say."""
    level: str
    text: str
    torn: bool = False
    """Another message begins on the same line, so that this one's end is missing."""


def split(line: str) -> list[Message]:
    """The messages on `line`, usually one, with all that stands before them taken off.

    Whatever launchers and log collectors put in front ([rank0]:, [1,3]<stdout>:, 0:, times) is
    passed over: a message is known by `host:pid:tid [device]` ... `NCCL INFO`.
    """
    line = _clean(line[:LONGEST_LINE])
    marks = _marks(line)
    if not marks:
        return [Message("", "", "", line.rstrip())]
    origins = []
    previous = 0
    for start, end, _ in marks:
        origins.append(_origin(line[max(previous, start - _LONGEST_ORIGIN) : start]))
        previous = end
    result = []
    for i, (_, end, level) in enumerate(marks):
        last = i + 1 == len(marks)
        stop = len(line) if last else marks[i + 1][0]
        process, thread = origins[i]
        result.append(Message(process, thread, level, line[end:stop].strip(), torn=not last))
    return result


def _clean(line: str) -> str:
    """Without NULs, escape sequences' first bytes and half of surrogate pairs."""
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else " " for c in line)


def _marks(line: str) -> list[tuple[int, int, str]]:
    """Start of `NCCL INFO `, start of the text after it, level."""
    found = []
    at = line.find(_MARK)
    while at >= 0:
        after = at + len(_MARK)
        for level in _LEVELS:
            end = after + len(level)
            if line.startswith(level, after) and line[end : end + 1] in ("", " "):
                found.append((at, end, level))
        at = line.find(_MARK, after)
    return found


def _origin(before: str) -> tuple[str, str]:
    """Process and thread from `... host:pid:tid [device] file.cc:12 `, or two empty texts."""
    words = before.split()[-_ORIGIN_WORDS:]
    for i in range(len(words) - 1, 0, -1):
        if _is_number(words[i][1:-1]) and words[i][0] == "[" and words[i][-1] == "]":
            return _process(words[i - 1])
    return "", ""


def _process(word: str) -> tuple[str, str]:
    parts = word.rsplit(":", 2)
    if len(parts) != 3 or not (_is_number(parts[1]) and _is_number(parts[2])):
        return "", ""
    # [1,3]<stdout>:host and 0:host come without a space.
    host = parts[0].rpartition(":")[2]
    process = f"{host[-255:]}:{parts[1]}"
    return process, f"{process}:{parts[2]}"


def _is_number(text: str) -> bool:
    return 0 < len(text) <= 10 and text.isdigit()
