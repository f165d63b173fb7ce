"""What connects a machine, as stand-ins for the kernel and for NVML show it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autotune.executors.host_links import find_links
from autotune.space.nccl import Network


class NvmlError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value


def nvml(kinds: dict[int, int] | None) -> Any:
    """NVML of a GPU whose links lead to devices of these kinds; None is no driver."""

    def init() -> None:
        if kinds is None:
            raise NvmlError(12)

    def look(handle: object, link: int) -> int:
        del handle
        if kinds is None or link not in kinds:
            raise NvmlError(2)
        return kinds[link]

    return SimpleNamespace(
        NVMLError=NvmlError,
        NVML_NVLINK_MAX_LINKS=18,
        NVML_NVLINK_DEVICE_TYPE_SWITCH=2,
        nvmlInit=init,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetNvLinkState=lambda handle, link: int(look(handle, link) >= 0),
        nvmlDeviceGetNvLinkRemoteDeviceType=look,
    )


def rdma(root: Path, *devices: tuple[str, str]) -> Path:
    for name, driver in devices:
        (root / "sys/drivers" / driver).mkdir(parents=True, exist_ok=True)
        folder = root / "sys/class/infiniband" / name / "device"
        folder.mkdir(parents=True)
        (folder / "driver").symlink_to(root / "sys/drivers" / driver)
    return root


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (None, (False, False)),
        ({}, (False, False)),
        ({0: 0, 1: 0}, (True, False)),
        ({0: 2, 5: 2}, (True, True)),
    ],
)
def test_nvlinks_and_switches(
    tmp_path: Path, kinds: dict[int, int] | None, expected: tuple[bool, bool]
) -> None:
    links = find_links(root=tmp_path, nvml=nvml(kinds))
    assert (links.nvlink, links.nvswitch) == expected


def test_efa_goes_before_what_else_is_there(tmp_path: Path) -> None:
    root = rdma(tmp_path, ("rdmap16s27", "efa"), ("rdmap32s27", "efa"), ("mlx5_0", "mlx5_core"))
    links = find_links(root=root, nvml=nvml(None))
    assert (links.network, links.nics, links.plugin) == (Network.EFA, 2, "")


def test_infiniband_and_plain_ethernet(tmp_path: Path) -> None:
    assert find_links(root=tmp_path, nvml=nvml(None)).network is Network.SOCKET
    root = rdma(tmp_path, ("mlx5_0", "mlx5_core"), ("mlx5_1", "mlx5_core"))
    links = find_links(root=root, nvml=nvml(None))
    assert (links.network, links.nics) == (Network.IB, 2)


@pytest.mark.parametrize(
    ("content", "version"),
    [
        (b"\0NET/OFI Initializing aws-ofi-nccl 1.17.1\0", "1.17.1"),
        (b"aws-ofi-nccl 1.9.1-aws", "1.9.1"),
        (b"something else", ""),
    ],
)
def test_the_plugin_s_version_is_read_from_its_library(
    tmp_path: Path, content: bytes, version: str
) -> None:
    folder = tmp_path / "opt/amazon/ofi-nccl/lib/x86_64-linux-gnu"
    folder.mkdir(parents=True)
    (folder / "libnccl-net.so").write_bytes(content)
    root = rdma(tmp_path, ("rdmap16s27", "efa"))
    assert find_links(root=root, nvml=nvml(None)).plugin == version
