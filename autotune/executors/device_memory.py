"""Whether GPUs are as free after a trial as they were before it, by NVML.

Written from NVML's documentation and tested with a stand-in for it; no GPU has run this yet.
"""

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import pynvml

from autotune.executors.host_gpus import nvml_session, visible_handles

TOLERANCE_BYTES = 256 * 2**20
"""What drivers keep now and then, and other programs' displays take."""
LIMIT_S = 10.0
"""For the driver to free what ended processes had: some seconds for tens of gigabytes."""
_POLL_S = 0.1


class DeviceMemory:
    """Watches the GPUs of one trial. Made before it starts, or given what was in use then."""

    def __init__(
        self,
        before: Sequence[int] | None = None,
        *,
        nvml: Any = pynvml,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._nvml = nvml
        self._clock = clock
        self._sleep = sleep
        self.before = tuple(self._used() if before is None else before)
        """Bytes in use on each GPU."""

    def wait_until_free(self) -> list[str]:
        """Wait, at most 10 s, until what was taken is free; a clause for each GPU that isn't."""
        deadline = self._clock() + LIMIT_S
        while (held := self._held()) and self._clock() < deadline:
            self._sleep(_POLL_S)
        return [
            f"{count / 2**30:.1f} GiB of memory on GPU {index}, {LIMIT_S:.0f} s after its last "
            f"process was gone{self._holders(index)}"
            for index, count in held.items()
        ]

    def _held(self) -> dict[int, int]:
        """Bytes by which GPUs have more in use than before the trial, where that is too much."""
        more = {
            index: used - before
            for index, (before, used) in enumerate(zip(self.before, self._used(), strict=False))
        }
        return {index: count for index, count in more.items() if count > TOLERANCE_BYTES}

    def _used(self) -> Sequence[int]:
        with nvml_session(self._nvml) as has_driver:
            if not has_driver:
                return []
            try:
                handles = visible_handles(self._nvml, os.environ)
                return [int(self._nvml.nvmlDeviceGetMemoryInfo(one).used) for one in handles]
            except self._nvml.NVMLError:
                return []

    def _holders(self, index: int) -> str:
        """The processes that use it, as far as NVML tells."""
        with nvml_session(self._nvml) as has_driver:
            if not has_driver:
                return ""
            try:
                handle = visible_handles(self._nvml, os.environ)[index]
                found = self._nvml.nvmlDeviceGetComputeRunningProcesses(handle)
            except (self._nvml.NVMLError, IndexError):
                return ""
        pids = ", ".join(str(process.pid) for process in found)
        return f" (in use by pid {pids})" if pids else ""
