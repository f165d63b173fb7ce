"""The summary that torchrun writes when ranks have failed (torch.distributed.elastic 1.9 to 2.14).

============
train.py FAILED
------------
Failures:
[1]:
  time      : 2026-03-12_14:17:56
  host      : node-a
  rank      : 1 (local_rank: 1)
  exitcode  : -15 (pid: 4712)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 4712
------------
Root Cause (first observed failure):
[0]:
  ...
"""

import re

from autotune.diagnosis.lines import Line

_ROOT = "root cause (first observed failure):"
_OTHERS = "failures:"
_ENTRY = re.compile(r"\[\d{1,6}\]:")
_FIELD = re.compile(r"(host|rank) {1,16}: (\S{1,255})", re.IGNORECASE)


class Summary:
    """Follows a log's lines; inside of a summary it knows whose failure they are about."""

    def __init__(self) -> None:
        self.is_root = False
        """The entry is the first failure that torchrun observed."""
        self.rank: int | None = None
        self.host = ""
        self._is_inside = False

    def take(self, line: Line) -> None:
        """Read the next line."""
        text = line.text.strip()
        if text.lower() in (_ROOT, _OTHERS):
            self._begin(is_root=text.lower() == _ROOT)
        elif self._is_inside and text.startswith("==="):
            self._end()
        elif self._is_inside and _ENTRY.fullmatch(text):
            self.rank, self.host = None, ""
        elif self._is_inside and (match := _FIELD.match(text)):
            self._set(match[1].lower(), match[2])

    def _begin(self, *, is_root: bool) -> None:
        self._is_inside, self.is_root, self.rank, self.host = True, is_root, None, ""

    def _end(self) -> None:
        self._is_inside, self.is_root, self.rank, self.host = False, False, None, ""

    def _set(self, name: str, value: str) -> None:
        if name == "host":
            self.host = value
        elif value.isdecimal() and len(value) <= 6:
            self.rank = int(value)
