"""What this machine is: its GPUs, cores, memory and versions, without importing torch."""

import ctypes
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

import pynvml

from autotune.executors.host_gpus import driver_versions, nvml_session, visible_gpus
from autotune.executors.host_limits import usable_cores, usable_memory_bytes
from autotune.model import Gpu, Machine

_ROOT = Path("/")


def describe_machine(
    *,
    root: Path = _ROOT,
    nvml: Any = pynvml,
    environment: Mapping[str, str] | None = None,
    affinity: int | None = None,
) -> Machine:
    """The machine that this runs on, as this process may use it.

    The arguments stand in for /proc and /sys, for the module pynvml, for the environment and for
    the number of cores in this process's affinity. Raises ExecutorError for a driver that is there
    and doesn't answer.
    """
    gpus: tuple[Gpu, ...] = ()
    versions = _versions(root)
    with nvml_session(nvml) as has_driver:
        if has_driver:
            gpus = visible_gpus(nvml, os.environ if environment is None else environment)
            versions |= driver_versions(nvml)
    if gpus and (nccl := _nccl_version()):
        versions["nccl"] = nccl
    cpu = _cpu_model(root)
    cores = usable_cores(root, affinity)
    return Machine(
        instance=_local_name(gpus, cpu, cores),
        gpus=gpus,
        cpu=cpu,
        cores=cores,
        memory_bytes=usable_memory_bytes(root),
        numa_nodes=_numa_nodes(root),
        versions=versions,
    )


def _local_name(gpus: tuple[Gpu, ...], cpu: str, cores: int) -> str:
    """For example `local-8x-nvidia-a100-sxm4-40gb` or `local-amd-epyc-2c`.

    Says what decides a trial's speed and no more: a CPU's frequency or stepping would make two
    machines of the same kind look different.
    """
    if gpus:
        names = sorted({gpu.name for gpu in gpus})
        return f"local-{len(gpus)}x-{_slug(' '.join(names))}"
    plain = re.sub(r"\(R\)|\(TM\)|\bCPU\b|\bProcessor\b|\d+-Core|@.*", " ", cpu, flags=re.I)
    return f"local-{_slug(plain) or 'cpu'}-{cores}c"


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _cpu_model(root: Path) -> str:
    """As /proc/cpuinfo says; Arm kernels name no model, so the architecture has to do."""
    try:
        text = (root / "proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, flags=re.M)
    return found[1].strip() if found else os.uname().machine


def _numa_nodes(root: Path) -> int:
    """Nodes with memory or cores of their own; 1 where the kernel shows none."""
    return max(1, len(list((root / "sys/devices/system/node").glob("node[0-9]*"))))


def _versions(root: Path) -> dict[str, str]:
    versions = {"kernel": _read_line(root / "proc/sys/kernel/osrelease")}
    with suppress(PackageNotFoundError):
        versions["torch"] = version("torch")
    return {name: text for name, text in versions.items() if text}


def _nccl_version() -> str:
    """Of the NCCL that torch will load; empty if unknown.

    A wheel of torch requires a package with it; where torch was built otherwise, as in NVIDIA's
    containers, it is the system's library that answers. Loading that makes no CUDA context.
    """
    with suppress(PackageNotFoundError):
        for requirement in requires("torch") or ():
            if package := re.match(r"nvidia-nccl-cu\d+", requirement):
                return version(package[0])
    number = ctypes.c_int()
    try:
        ctypes.CDLL("libnccl.so.2").ncclGetVersion(ctypes.byref(number))
    except (OSError, AttributeError):
        return ""
    # nccl.h, NCCL_VERSION: since 2.9 two digits each for minor and patch.
    code = number.value
    return f"{code // 10000}.{code % 10000 // 100}.{code % 100}"


def _read_line(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
