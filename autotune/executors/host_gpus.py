"""The GPUs that a CUDA program started here would see, by NVML: no CUDA context is made.

Written from NVML's documentation and tested with a stand-in for it; no GPU has run this yet.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from autotune.errors import ExecutorError
from autotune.model import Gpu

# nvml.h: the library isn't installed, or the kernel's driver isn't loaded.
_ABSENT = (12, 9)


@contextmanager
def nvml_session(nvml: Any) -> Iterator[bool]:
    """Whether there is a driver, for as long as the block runs."""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        if error.value not in _ABSENT:
            raise ExecutorError(
                f"the NVIDIA driver is installed and doesn't work: {error}",
                hint="see what nvidia-smi says",
            ) from None
        yield False
        return
    try:
        yield True
    finally:
        nvml.nvmlShutdown()


def visible_gpus(nvml: Any, environment: Mapping[str, str]) -> tuple[Gpu, ...]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves, in its order. Inside `nvml_session`."""
    try:
        return tuple(_gpu(nvml, handle) for handle in visible_handles(nvml, environment))
    except nvml.NVMLError as error:
        raise ExecutorError(f"the NVIDIA driver can't describe the GPUs: {error}") from None


def visible_handles(nvml: Any, environment: Mapping[str, str]) -> list[Any]:
    """NVML's handles of the same GPUs. Raises NVMLError. Inside `nvml_session`."""
    chosen = environment.get("CUDA_VISIBLE_DEVICES")
    return _all(nvml) if chosen is None else _chosen(nvml, chosen)


def driver_versions(nvml: Any) -> dict[str, str]:
    """Of the driver, and the newest CUDA that it runs. Inside `nvml_session`."""
    cuda = nvml.nvmlSystemGetCudaDriverVersion()
    return {
        "driver": str(nvml.nvmlSystemGetDriverVersion()),
        "cuda_driver": f"{cuda // 1000}.{cuda % 1000 // 10}",
    }


def _all(nvml: Any) -> list[Any]:
    """Whole GPUs; if all of them are divided (MIG), the one part that a CUDA process can use."""
    handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
    whole = [handle for handle in handles if not _is_divided(nvml, handle)]
    return whole or [part for handle in handles for part in _parts(nvml, handle)][:1]


def _chosen(nvml: Any, chosen: str) -> list[Any]:
    """CUDA's reading of the variable: all up to the first entry that is no device, none twice."""
    handles: list[Any] = []
    seen: set[str] = set()
    for entry in (part.strip() for part in chosen.split(",")):
        handle = _find(nvml, entry)
        if handle is None:
            break
        uuid = nvml.nvmlDeviceGetUUID(handle)
        if uuid in seen:
            return []
        if entry.startswith("MIG-"):
            # A CUDA process uses one part, and no whole GPU beside it.
            return handles or [handle]
        seen.add(uuid)
        handles.append(handle)
    return handles


def _find(nvml: Any, entry: str) -> Any:
    """The device that `entry` names by index or by UUID, whole or abbreviated; None if none."""
    if entry.isdigit():
        index = int(entry)
        found = index < nvml.nvmlDeviceGetCount()
        return nvml.nvmlDeviceGetHandleByIndex(index) if found else None
    if not entry.startswith(("GPU-", "MIG-")):
        return None
    handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
    if entry.startswith("MIG-"):
        handles = [part for handle in handles for part in _parts(nvml, handle)]
    matches = [h for h in handles if nvml.nvmlDeviceGetUUID(h).startswith(entry)]
    return matches[0] if len(matches) == 1 else None


def _is_divided(nvml: Any, handle: Any) -> bool:
    try:
        current, _pending = nvml.nvmlDeviceGetMigMode(handle)
    except nvml.NVMLError:  # not supported: older and smaller GPUs
        return False
    return bool(current == nvml.NVML_DEVICE_MIG_ENABLE)


def _parts(nvml: Any, handle: Any) -> list[Any]:
    if not _is_divided(nvml, handle):
        return []
    parts = []
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            parts.append(nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index))
        except nvml.NVMLError:  # this place is empty
            continue
    return parts


def _gpu(nvml: Any, handle: Any) -> Gpu:
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    return Gpu(name=str(nvml.nvmlDeviceGetName(handle)), memory_bytes=int(memory.total))
