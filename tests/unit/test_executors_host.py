"""What a machine is, from a /proc and a /sys that the test writes and a stand-in for NVML."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from autotune.errors import ExecutorError
from autotune.executors import host
from autotune.executors.host import describe_machine
from autotune.executors.host_limits import oom_kills, usable_cores, usable_memory_bytes
from autotune.model import GIB, DeviceKind, Machine

A100 = "NVIDIA A100-SXM4-40GB"


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"NVML says {value}")
        self.value = value


class FakeDevice:
    def __init__(self, name: str, uuid: str, gib: int, parts: list["FakeDevice"] | None = None):
        self.name, self.uuid, self.memory_bytes, self.parts = name, uuid, gib * GIB, parts


class FakeNvml:
    """As much of the module pynvml as is used, after its documentation."""

    NVMLError = NVMLError
    NVML_DEVICE_MIG_ENABLE = 1

    def __init__(self, devices: list[FakeDevice], *, init_error: int = 0) -> None:
        self.devices = devices
        self.init_error = init_error
        self.sessions = 0

    def nvmlInit(self) -> None:
        if self.init_error:
            raise NVMLError(self.init_error)
        self.sessions += 1

    def nvmlShutdown(self) -> None:
        self.sessions -= 1

    def nvmlSystemGetDriverVersion(self) -> str:
        return "570.86.15"

    def nvmlSystemGetCudaDriverVersion(self) -> int:
        return 12080

    def nvmlDeviceGetCount(self) -> int:
        return len(self.devices)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeDevice:
        return self.devices[index]

    def nvmlDeviceGetUUID(self, device: FakeDevice) -> str:
        return device.uuid

    def nvmlDeviceGetName(self, device: FakeDevice) -> str:
        return device.name

    def nvmlDeviceGetMemoryInfo(self, device: FakeDevice) -> SimpleNamespace:
        return SimpleNamespace(total=device.memory_bytes)

    def nvmlDeviceGetMigMode(self, device: FakeDevice) -> tuple[int, int]:
        if device.parts is None:
            raise NVMLError(3)
        return (int(bool(device.parts)), 0)

    def nvmlDeviceGetMaxMigDeviceCount(self, device: FakeDevice) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: FakeDevice, index: int) -> FakeDevice:
        if index == 0 or index > len(device.parts or ()):
            raise NVMLError(6)
        return (device.parts or [])[index - 1]


def whole(number: int) -> FakeDevice:
    return FakeDevice(A100, f"GPU-{number}abc", 40, [])


def divided(number: int) -> FakeDevice:
    parts = [FakeDevice(f"{A100} MIG 1g.5gb", f"MIG-{number}{i}", 5) for i in range(2)]
    return FakeDevice(A100, f"GPU-{number}abc", 40, parts)


Write = Callable[[str, str], None]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    write_file("proc/cpuinfo", "processor : 0\nmodel name\t: AMD EPYC 7R13 48-Core Processor\n")
    write_file("proc/meminfo", "MemTotal:       67108864 kB\nMemFree: 1 kB\n")
    write_file("proc/sys/kernel/osrelease", "6.1.0-aws\n")
    return write_file


def describe(root: Path, nvml: FakeNvml, **environment: str) -> Machine:
    return describe_machine(root=root, nvml=nvml, environment=environment, affinity=8)


def test_a_machine_without_a_driver(tmp_path: Path, write: Write) -> None:
    machine = describe(tmp_path, FakeNvml([], init_error=12))
    assert machine.device is DeviceKind.CPU
    assert machine.instance == "local-amd-epyc-7r13-8c"
    assert machine.cpu == "AMD EPYC 7R13 48-Core Processor"
    assert (machine.cores, machine.memory_bytes, machine.numa_nodes) == (8, 64 * GIB, 1)
    assert machine.versions["kernel"] == "6.1.0-aws"
    assert set(machine.versions) == {"kernel", "torch"}


@pytest.mark.parametrize(
    ("cpu", "name"),
    [
        ("Intel(R) Xeon(R) Platinum 8488C", "local-intel-xeon-platinum-8488c-8c"),
        ("Intel(R) Xeon(R) CPU E5-2686 v4 @ 2.30GHz", "local-intel-xeon-e5-2686-v4-8c"),
        ("AMD EPYC", "local-amd-epyc-8c"),
    ],
)
def test_the_name_of_a_machine_of_cores(tmp_path: Path, write: Write, cpu: str, name: str) -> None:
    write("proc/cpuinfo", f"model name\t: {cpu}\n")
    assert describe(tmp_path, FakeNvml([], init_error=9)).instance == name


def test_a_machine_of_gpus(tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "requires", lambda _name: ["numpy", "nvidia-nccl-cu13==2.29.7; x"])
    monkeypatch.setattr(host, "version", {"torch": "2.13.0", "nvidia-nccl-cu13": "2.29.7"}.get)
    for node in range(2):
        write(f"sys/devices/system/node/node{node}/cpulist", "0-3")
    nvml = FakeNvml([whole(i) for i in range(8)])
    machine = describe(tmp_path, nvml)
    assert machine.instance == "local-8x-nvidia-a100-sxm4-40gb"
    assert [(gpu.name, gpu.memory_bytes) for gpu in machine.gpus] == [(A100, 40 * GIB)] * 8
    assert machine.numa_nodes == 2
    assert machine.versions == {
        "kernel": "6.1.0-aws",
        "torch": "2.13.0",
        "driver": "570.86.15",
        "cuda_driver": "12.8",
        "nccl": "2.29.7",
    }
    assert nvml.sessions == 0


def test_a_driver_that_does_not_work_is_not_taken_for_none(tmp_path: Path, write: Write) -> None:
    with pytest.raises(ExecutorError, match="doesn't work: NVML says 18"):
        describe(tmp_path, FakeNvml([], init_error=18))


def test_nvml_is_shut_down_after_an_error(tmp_path: Path, write: Write) -> None:
    nvml = FakeNvml([whole(0)])
    nvml.nvmlDeviceGetName = lambda device: (_ for _ in ()).throw(NVMLError(999))  # type: ignore[method-assign]
    with pytest.raises(ExecutorError, match="NVML says 999"):
        describe(tmp_path, nvml)
    assert nvml.sessions == 0


@pytest.mark.parametrize(
    ("chosen", "count"),
    [
        ("", 0),
        ("0", 1),
        (" 0 , 3 ", 2),
        ("0,1,9,2", 2),
        ("-1", 0),
        ("NoDevFiles", 0),
        ("1,1", 0),
        ("GPU-2abc,GPU-0", 2),
        ("GPU-", 0),
        ("GPU-7", 0),
        ("MIG-00", 0),
    ],
)
def test_cuda_visible_devices_is_read_as_cuda_does(
    tmp_path: Path, write: Write, chosen: str, count: int
) -> None:
    nvml = FakeNvml([whole(i) for i in range(4)])
    machine = describe(tmp_path, nvml, CUDA_VISIBLE_DEVICES=chosen)
    assert len(machine.gpus) == count


@pytest.mark.parametrize(
    ("devices", "chosen", "names"),
    [
        ([divided(0), divided(1)], None, [f"{A100} MIG 1g.5gb"]),
        ([divided(0), whole(1)], None, [A100]),
        ([whole(0), divided(1)], "MIG-11,MIG-10", [f"{A100} MIG 1g.5gb"]),
        ([whole(0), divided(1)], "0,MIG-11", [A100]),
        ([FakeDevice("Tesla T4", "GPU-0", 15)], None, ["Tesla T4"]),
    ],
)
def test_divided_gpus(
    tmp_path: Path, write: Write, devices: list[FakeDevice], chosen: str | None, names: list[str]
) -> None:
    environment = {} if chosen is None else {"CUDA_VISIBLE_DEVICES": chosen}
    machine = describe(tmp_path, FakeNvml(devices), **environment)
    assert [gpu.name for gpu in machine.gpus] == names


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, 8),
        ({"sys/fs/cgroup/cpu.max": "max 100000"}, 8),
        ({"sys/fs/cgroup/cpu.max": "250000 100000"}, 2),
        ({"sys/fs/cgroup/cpu.max": "50000 100000"}, 1),
        ({"sys/fs/cgroup/cpu.max": "9000000 100000"}, 8),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/cpu.max": "300000 100000",
                "sys/fs/cgroup/a/b/cpu.max": "max 100000",
            },
            3,
        ),
        (
            {
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "400000",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            },
            4,
        ),
        (
            {
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            },
            8,
        ),
    ],
)
def test_cores_by_quota(tmp_path: Path, write: Write, files: dict[str, str], cores: int) -> None:
    for name, text in files.items():
        write(name, text)
    assert usable_cores(tmp_path, 8) == cores


@pytest.mark.parametrize(
    ("files", "gib"),
    [
        ({}, 64),
        ({"sys/fs/cgroup/memory.max": "max"}, 64),
        ({"sys/fs/cgroup/memory.max": str(16 * GIB)}, 16),
        ({"sys/fs/cgroup/memory/memory.limit_in_bytes": str(8 * GIB)}, 8),
        ({"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712"}, 64),
        (
            {
                "proc/self/cgroup": "4:memory:/pod/x\n",
                "sys/fs/cgroup/memory/pod/memory.limit_in_bytes": str(4 * GIB),
            },
            4,
        ),
        ({"proc/meminfo": ""}, 0),
    ],
)
def test_memory_by_limit(tmp_path: Path, write: Write, files: dict[str, str], gib: int) -> None:
    for name, text in files.items():
        write(name, text)
    assert usable_memory_bytes(tmp_path) == gib * GIB


@pytest.mark.parametrize(
    ("files", "kills"),
    [
        ({}, 0),
        ({"proc/vmstat": "nr_free_pages 1\noom_kill 3\n"}, 3),
        ({"sys/fs/cgroup/memory.events": "low 0\noom 1\noom_kill 2\n"}, 2),
        ({"sys/fs/cgroup/memory/memory.oom_control": "under_oom 0\noom_kill 5\n"}, 5),
    ],
)
def test_oom_kills(tmp_path: Path, write: Write, files: dict[str, str], kills: int) -> None:
    for name, text in files.items():
        write(name, text)
    assert oom_kills(tmp_path) == kills


def test_this_machine_can_be_described() -> None:
    machine = describe_machine()
    assert machine.instance.startswith("local-")
    assert machine.cores >= 1
    assert machine.memory_bytes > 0
