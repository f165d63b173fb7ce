"""The versions that a result depends on."""

import platform
from pathlib import Path

import torch


def versions(device: torch.device) -> dict[str, str]:
    """Of everything that a result depends on."""
    found = {"python": platform.python_version(), "torch": torch.__version__}
    if device.type == "cuda":
        found["cuda"] = torch.version.cuda or ""
        found["nccl"] = ".".join(str(part) for part in _nccl_version())
        found["gpu"] = torch.cuda.get_device_name(device)
        found |= _driver()
    return found


def _nccl_version() -> tuple[int, ...]:
    version: tuple[int, ...] = torch.cuda.nccl.version()  # type: ignore[no-untyped-call]
    return version


def _driver() -> dict[str, str]:
    try:
        line = Path("/proc/driver/nvidia/version").read_text().splitlines()[0]
    except (OSError, IndexError):
        return {}
    numbers = [word for word in line.split() if word[0].isdigit() and "." in word]
    return {"driver": numbers[0]} if numbers else {}
