"""How fast a device of this node multiplies matrices, and how fast its data gets to other nodes.

    python -m autotune.trainers.probe cuda|cpu      # one process for each device, as ranks

Prints a JSON line for each: {"seconds": …}, then {"all_reduce_s": …, "received_s": {node: …}}. A
GPU that throttles, a host whose cores are taken, and a slow link show here before any trial.
"""

import json
import sys
import time
from dataclasses import asdict
from statistics import median

import torch

from autotune.model import DeviceKind
from autotune.trainers import links
from autotune.trainers.rendezvous import Place, device_of

SIZES = {DeviceKind.CUDA: 8192, DeviceKind.CPU: 768}
"""Of square matrices: some milliseconds on an A100, and on a core."""
REPEATS = 20
WARMUPS = 5


def main(kind: str) -> None:
    """Print the seconds."""
    place, device_kind = Place.from_environment(), DeviceKind(kind)
    device = device_of(device_kind, place)
    _tell({"seconds": matmul_s(device)})
    if place.ranks > place.local_ranks:
        _tell(asdict(links.measure(place, device_kind, device)))


def matmul_s(device: torch.device) -> float:
    """Seconds of one multiplication: the median, so that no single hiccup counts."""
    is_cuda = device.type == "cuda"
    size = SIZES[DeviceKind.CUDA if is_cuda else DeviceKind.CPU]
    dtype = torch.bfloat16 if is_cuda else torch.float32
    matrix = torch.randn(size, size, device=device, dtype=dtype)
    times = []
    for _ in range(WARMUPS + REPEATS):
        began = time.perf_counter()
        matrix @ matrix
        if is_cuda:
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - began)
    return median(times[WARMUPS:])


def _tell(line: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
