"""What this process may use of its machine: cores, memory, and whether memory ran out.

Container limits are read from control groups, version 1 and 2. A container sees its own group at
the root of the mount; outside one, a group is found by the path in /proc/self/cgroup, and a limit
on any group above holds as well. `root` is where /proc and /sys are looked for.
"""

import os
from collections.abc import Iterator
from pathlib import Path


def usable_cores(root: Path, affinity: int | None = None) -> int:
    """Cores by affinity, capped by the control group's CPU quota; at least 1."""
    cores = len(os.sched_getaffinity(0)) if affinity is None else affinity
    quotas = [quota for quota in _cpu_quotas(root) if quota > 0]
    return max(1, int(min([cores, *quotas])))


def usable_memory_bytes(root: Path) -> int:
    """The machine's memory or the control group's limit, whichever is less; 0 if unknown.

    No limit needs no case: version 1 writes a number near 2**63, version 2 the word max.
    """
    limits = [_meminfo_total(root), *_memory_limits(root)]
    return min((limit for limit in limits if limit), default=0)


def oom_kills(root: Path) -> int:
    """How often the kernel has ended a process for want of memory, as far as this process sees."""
    counts = [_keyed(folder / "memory.events", "oom_kill") for folder in _folders(root, "")]
    counts += [
        _keyed(folder / "memory.oom_control", "oom_kill") for folder in _folders(root, "memory")
    ]
    return max([_keyed(root / "proc/vmstat", "oom_kill"), *counts])


def _cpu_quotas(root: Path) -> Iterator[float]:
    for folder in _folders(root, ""):
        quota, _, period = _read(folder / "cpu.max").partition(" ")
        if quota.isdigit() and period.isdigit():
            yield int(quota) / int(period)
    for controller in ("cpu", "cpu,cpuacct"):
        for folder in _folders(root, controller):
            quota = _read(folder / "cpu.cfs_quota_us")
            period = _read(folder / "cpu.cfs_period_us")
            if quota.isdigit() and period.isdigit():
                yield int(quota) / int(period)


def _memory_limits(root: Path) -> Iterator[int]:
    for folder in _folders(root, ""):
        limit = _read(folder / "memory.max")
        if limit.isdigit():
            yield int(limit)
    for folder in _folders(root, "memory"):
        limit = _read(folder / "memory.limit_in_bytes")
        if limit.isdigit():
            yield int(limit)


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """The control group of this process and all above it, for `controller` ("" is version 2)."""
    mounts = [root / "sys/fs/cgroup" / controller]
    if not controller:
        mounts.append(root / "sys/fs/cgroup/unified")
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        names, _, group = rest.partition(":")
        if names == controller:
            for mount in mounts:
                path = Path(group.lstrip("/"))
                yield from (mount / part for part in (path, *path.parents) if part != Path())
    yield from mounts


def _meminfo_total(root: Path) -> int:
    for line in _read(root / "proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 2**10
    return 0


def _keyed(path: Path, key: str) -> int:
    for line in _read(path).splitlines():
        name, _, value = line.partition(" ")
        if name == key and value.strip().isdigit():
            return int(value)
    return 0


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
