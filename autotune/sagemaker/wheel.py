"""A wheel of the autotune that runs, whether it was installed from one or from a checkout."""

import base64
import hashlib
import io
import os
import re
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import autotune
from autotune.errors import UserError

NAME = "autotune-train"
_STEM = "autotune_train"
_LEFT_OUT = {"__pycache__", ".mypy_cache", ".ruff_cache"}
_MADE = (2020, 1, 1, 0, 0, 0)
"""Of every file: the same content is the same wheel."""
_ELSEWHERE = re.compile(r"^(torch|nvidia-ml-py)\b")
"""What containers for PyTorch have, and must keep."""
_EXTRA = re.compile(r"""\bextra\s*==\s*['"]([\w-]+)['"]""")


def build_wheel() -> tuple[str, bytes]:
    """Its file's name, and its content. Raises UserError if this autotune isn't installed."""
    files = dict(_package_files())
    info = f"{_STEM}-{autotune.__version__}.dist-info"
    files[f"{info}/METADATA"] = _metadata(_installed()).encode()
    files[f"{info}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: autotune\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    files[f"{info}/entry_points.txt"] = b"[console_scripts]\nautotune = autotune.__main__:main\n"
    record = f"{info}/RECORD"
    files[record] = _record(files, record).encode()
    return f"{_STEM}-{autotune.__version__}-py3-none-any.whl", _zipped(files)


def requirements(*extras: str) -> list[str]:
    """What autotune needs, and what its `extras` do, but for what a container has."""
    found = []
    for line in _installed().requires or []:
        requirement, _, marker = line.partition(";")
        extra = _EXTRA.search(marker)
        if _ELSEWHERE.match(requirement) or (extra and extra[1] not in extras):
            continue
        found.append(requirement.strip())
    return sorted(set(found))


def _installed() -> Distribution:
    try:
        return distribution(NAME)
    except PackageNotFoundError:
        raise UserError(
            f"{NAME} isn't installed here, so what it needs in a container isn't known",
            hint="pip install autotune-train, or pip install -e . in a checkout",
        ) from None


def _package_files() -> Iterator[tuple[str, bytes]]:
    """All files of the package, through the links that a checkout has in it."""
    package = Path(autotune.__file__).resolve().parent
    for folder, folders, names in os.walk(package, followlinks=True):
        folders[:] = sorted(set(folders) - _LEFT_OUT)
        for name in sorted(names):
            path = Path(folder) / name
            if path.suffix != ".pyc":
                yield f"autotune/{path.relative_to(package).as_posix()}", path.read_bytes()


def _metadata(installed: Distribution) -> str:
    lines = ["Metadata-Version: 2.1", f"Name: {NAME}", f"Version: {autotune.__version__}"]
    lines += [f"Requires-Dist: {line}" for line in installed.requires or []]
    extras = sorted(installed.metadata.get_all("Provides-Extra") or [])
    return "\n".join([*lines, *(f"Provides-Extra: {extra}" for extra in extras), ""])


def _record(files: dict[str, bytes], own: str) -> str:
    lines = [f"{name},sha256={_digest(content)},{len(content)}" for name, content in files.items()]
    return "\n".join([*lines, f"{own},,", ""])


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def _zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _MADE)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return buffer.getvalue()
