"""NCCL's version: everything else here depends on it."""

import re
from dataclasses import dataclass

from autotune.errors import FieldError

_TEXT = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+)(?:\.\d+)*)?(?:[-+ ].*)?")
_FIRST_LONG_CODE = 10_000


@dataclass(frozen=True, order=True)
class NcclVersion:
    """A release of NCCL, ordered as releases are: `NcclVersion(2, 9) < NcclVersion(2, 10)`."""

    major: int
    minor: int
    patch: int = 0

    @classmethod
    def parse(cls, value: object) -> "NcclVersion":
        """From "2.27.5", "2.27.5+cuda12.9", (2, 27, 5), or NCCL's integer codes 22705 and 2705.

        The codes are NCCL_VERSION in nccl.h: up to 2.8 one digit for the minor version
        (2705 is 2.7.5), two after (22705 is 2.27.5). Raises FieldError.
        """
        if isinstance(value, int) and not isinstance(value, bool):
            return cls._from_code(value)
        if isinstance(value, tuple | list) and 2 <= len(value) <= 4:
            return cls._from_numbers(list(value))
        if isinstance(value, str) and value.strip().isdecimal():
            return cls._from_code(int(value))
        match = _TEXT.fullmatch(value.strip()) if isinstance(value, str) else None
        if not match:
            raise _unreadable(value)
        return cls(int(match[1]), int(match[2]), int(match[3] or 0))

    @classmethod
    def _from_code(cls, code: int) -> "NcclVersion":
        if code < 1000:
            raise _unreadable(code)
        unit = 10_000 if code >= _FIRST_LONG_CODE else 1000
        return cls(code // unit, code % unit // 100, code % 100)

    @classmethod
    def _from_numbers(cls, numbers: list[object]) -> "NcclVersion":
        kept = [n for n in numbers[:3] if isinstance(n, int) and not isinstance(n, bool) and n >= 0]
        if len(kept) != len(numbers[:3]):
            raise _unreadable(numbers)
        return cls(*kept)

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


def _unreadable(value: object) -> FieldError:
    return FieldError("nccl", value, "is not an NCCL version", alternatives=("2.27.5", 22705))
