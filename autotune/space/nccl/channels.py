"""Channels: how many CTAs NCCL uses for a collective, as one number.

NCCL_NCHANNELS doesn't exist in any version: a minimum and a maximum do, under two pairs of names.
Source: NCCL v2.30.7, ncclTopoPostset in src/graph/connect.cc and src/init.cc; user guide, env.rst.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from autotune.errors import FieldError
from autotune.space.nccl.version import NcclVersion

_CTAS_FROM = NcclVersion(2, 17)
_CHANNELS_FROM = NcclVersion(2, 5)
_INTEGER = re.compile(r"\s*([+-]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)")


def channel_limit(version: NcclVersion) -> int:
    """MAXCHANNELS in NCCL's devcomm.h or device.h."""
    if version >= NcclVersion(2, 25):
        return 64
    return 32 if version >= _CHANNELS_FROM else 16


def channel_variables(version: NcclVersion, count: int) -> dict[str, str]:
    """The variables that make collectives use `count` channels. Raises FieldError.

    Small messages may still use fewer.
    """
    limit = channel_limit(version)
    if not 1 <= count <= limit:
        rule = f"is outside 1 to {limit}, the channels of NCCL {version}"
        raise FieldError("nccl_channels", count, rule)
    suffix = "NRINGS"
    if version >= _CHANNELS_FROM:
        suffix = "CTAS" if version >= _CTAS_FROM else "NCHANNELS"
    return {f"NCCL_MIN_{suffix}": str(count), f"NCCL_MAX_{suffix}": str(count)}


@dataclass(frozen=True, kw_only=True)
class ChannelBounds:
    """What an environment asks for; None where it leaves NCCL its own choice."""

    minimum: int | None
    maximum: int | None

    @property
    def exact(self) -> int | None:
        """The number of channels, if there is only one possible."""
        return self.minimum if self.minimum == self.maximum else None


def channels_in(version: NcclVersion, environment: Mapping[str, str]) -> ChannelBounds:
    """What `version` makes of the channel variables in `environment`.

    Of both pairs the more restrictive bound holds. Of a minimum above its maximum, the maximum
    wins in a pair of CTAs; otherwise the minimum, for channels are duplicated after the cut.
    """
    limit = channel_limit(version)
    minimum = _channels(environment, "MIN", 0, limit) if version >= _CHANNELS_FROM else None
    maximum = _channels(environment, "MAX", 1, limit) if version >= _CHANNELS_FROM else None
    if version >= _CTAS_FROM:
        min_ctas, max_ctas = _ctas(environment, limit)
        minimum = max((m for m in (minimum, min_ctas) if m is not None), default=None)
        maximum = min((m for m in (maximum, max_ctas) if m is not None), default=None)
    if minimum is not None and maximum is not None and minimum > maximum:
        maximum = minimum
    return ChannelBounds(minimum=minimum, maximum=maximum)


def _channels(environment: Mapping[str, str], end: str, lowest: int, limit: int) -> int | None:
    """From NCHANNELS, or NRINGS, its older name, which is asked first."""
    for suffix in ("NRINGS", "NCHANNELS"):
        value = parse_integer(environment.get(f"NCCL_{end}_{suffix}", ""))
        if value is not None and value >= 0:
            return min(max(value, lowest), limit)
    return None


def _ctas(environment: Mapping[str, str], limit: int) -> tuple[int | None, int | None]:
    found = [parse_integer(environment.get(f"NCCL_{end}_CTAS", "")) for end in ("MIN", "MAX")]
    minimum, maximum = (
        None if value is None or value <= 0 else min(value, limit) for value in found
    )
    if minimum is not None and maximum is not None and minimum > maximum:
        minimum = maximum
    return minimum, maximum


def parse_integer(text: str) -> int | None:
    """As NCCL reads integers, strtoll with base 0: 0x10 and 020 are 16; None if it would refuse."""
    match = _INTEGER.fullmatch(text)
    if not match:
        return None
    sign, digits = match.groups()
    is_octal = len(digits) > 1 and digits[0] == "0" and digits[1] not in "xX"
    value = int(digits, 8 if is_octal else 0)
    return -value if sign == "-" else value
