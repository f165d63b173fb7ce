"""What a person asks for of AWS."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What was asked for of AWS; None is what goes by default."""

    role: str | None = None
    image: str | None = None
    is_spot: bool = False
    max_usd: float | None = None
    s3: str | None = None
    keep_alive_s: int | None = None
