"""Whether NCCL understood a value as it was meant."""

import re

_INTEGER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]{1,16}|[0-9]{1,19})")
_LEVELS = ("NCCL_P2P_LEVEL", "NCCL_NET_GDR_LEVEL")
_OLD_LEVELS = ("LOC", "PIX", "PXB", "PHB", "SYS")


def same_value(name: str, requested: str, logged: str) -> bool:
    """Whether `logged` is what NCCL makes of `requested`."""
    requested, logged = requested.strip(), logged.strip()
    if requested == logged:
        return True
    number = integer(requested)
    if name in _LEVELS and number is not None and number >= 0:
        return logged == _OLD_LEVELS[min(number, len(_OLD_LEVELS) - 1)]
    return number is not None and number == integer(logged)


def integer(text: str) -> int | None:
    """`text` as C's strtoll with base 0 reads it: 0x is hexadecimal, a leading 0 octal."""
    if not _INTEGER.fullmatch(text):
        return None
    sign = -1 if text[0] == "-" else 1
    digits = text.lstrip("+-").casefold()
    base = 16 if digits.startswith("0x") else 8 if digits.startswith("0") else 10
    try:
        return sign * int(digits, base)
    except ValueError:
        return None
