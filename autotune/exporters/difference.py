"""How two configurations differ, field by field of the document."""

from collections.abc import Iterator, Mapping
from typing import Any

from autotune.exporters.document import to_document
from autotune.exporters.text import shown
from autotune.model import BestConfiguration


def differences(
    one: BestConfiguration, other: BestConfiguration
) -> dict[str, tuple[str | None, str | None]]:
    """Field to its value in `one` and in `other`; None where it isn't there or at its default."""
    left, right = (dict(_leaves(to_document(best))) for best in (one, other))
    return {
        path: (left.get(path), right.get(path))
        for path in dict.fromkeys([*left, *right])
        if left.get(path) != right.get(path)
    }


def _leaves(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in data.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{path}.")
        elif isinstance(value, list):
            yield path, ", ".join(map(shown, value))
        elif value is not None:
            yield path, shown(value)
