"""What connects this machine's GPUs, and this machine with others, as the kernel and NVML show it.

Written from NVML's and Linux's documentation and tested with stand-ins; no GPU has run this yet.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pynvml

from autotune.executors.host_gpus import nvml_session
from autotune.space.facts import Links
from autotune.space.nccl import Network

_ROOT = Path("/")
_PLUGINS = (
    "opt/amazon/ofi-nccl/lib*/**/libnccl-net*.so",
    "opt/amazon/aws-ofi-nccl/lib*/**/libnccl-net*.so",
    "opt/aws-ofi-nccl/lib*/**/libnccl-net*.so",
)
"""Where the EFA installer and container images put aws-ofi-nccl."""
_PLUGIN_VERSION = re.compile(rb"aws-ofi-nccl[ -]v?(\d+\.\d+(?:\.\d+)?)")
_MAX_PLUGIN_BYTES = 64 * 2**20


def find_links(*, root: Path = _ROOT, nvml: Any = pynvml) -> Links:
    """The connections of this machine; the arguments stand in for the file system and for NVML."""
    nvlink, nvswitch = _between_gpus(nvml)
    devices = sorted((root / "sys/class/infiniband").glob("*"))
    efa = [device for device in devices if _driver(device) == "efa"]
    network = Network.EFA if efa else Network.IB if devices else Network.SOCKET
    return Links(
        nvlink=nvlink,
        nvswitch=nvswitch,
        network=network,
        nics=max(1, len(efa or devices)),
        plugin=_plugin(root) if efa else "",
    )


def _driver(device: Path) -> str:
    try:
        return (device / "device" / "driver").resolve(strict=True).name
    except OSError:
        return ""


def _between_gpus(nvml: Any) -> tuple[bool, bool]:
    """Whether the first GPU has NVLinks, and whether they lead to switches."""
    with nvml_session(nvml) as has_driver:
        if not has_driver:
            return False, False
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(0)
        except nvml.NVMLError:
            return False, False
        kinds = list(_links(nvml, handle))
    return bool(kinds), nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH in kinds


def _links(nvml: Any, handle: Any) -> Iterable[int]:
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        try:
            if nvml.nvmlDeviceGetNvLinkState(handle, link):
                yield int(nvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link))
        except nvml.NVMLError:  # no such link, or a GPU without any
            continue


def _plugin(root: Path) -> str:
    """The version that the plugin's library prints when it starts; empty if none is found."""
    for pattern in _PLUGINS:
        for path in sorted(root.glob(pattern)):
            try:
                with path.open("rb") as library:
                    found = _PLUGIN_VERSION.search(library.read(_MAX_PLUGIN_BYTES))
            except OSError:
                continue
            if found:
                return found[1].decode()
    return ""
