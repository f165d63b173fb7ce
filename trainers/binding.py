"""Binds a rank to the cores near its device."""

import os
from pathlib import Path
from typing import Any

import torch

from autotune.trainers.rendezvous import Place

_SYS = Path("/sys")


def bind_to_numa_node(place: Place, device: torch.device, root: Path = _SYS) -> set[int]:
    """Restrict this process to one NUMA node's cores; returns the cores it may use then.

    With a GPU it is the GPU's node; without, the ranks of a machine are spread over its nodes.
    Where the node isn't known, or none of its cores may be used, nothing changes.
    """
    allowed = os.sched_getaffinity(0)
    node = _gpu_node(device, root) if device.type == "cuda" else _share(place, root)
    cores = allowed & _cores(node, root) if node is not None else set()
    if cores:
        os.sched_setaffinity(0, cores)
    return cores or allowed


def _gpu_node(device: torch.device, root: Path) -> int | None:
    # The bus address is missing from PyTorch's own type annotations.
    found: Any = torch.cuda.get_device_properties(device)
    bus = f"{found.pci_domain_id:04x}:{found.pci_bus_id:02x}:{found.pci_device_id:02x}.0"
    try:
        node = int((root / "bus/pci/devices" / bus / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def _share(place: Place, root: Path) -> int | None:
    nodes = sorted(int(p.name[4:]) for p in (root / "devices/system/node").glob("node[0-9]*"))
    return nodes[place.local_rank * len(nodes) // place.local_ranks] if nodes else None


def _cores(node: int, root: Path) -> set[int]:
    """The node's cores; form of the file: `0-3,8-11`."""
    try:
        text = (root / f"devices/system/node/node{node}/cpulist").read_text().strip()
    except OSError:
        return set()
    cores: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        cores |= set(range(int(first), int(last or first) + 1))
    return cores
