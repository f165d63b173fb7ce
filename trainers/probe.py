"""How fast each device of this node multiplies matrices.

    python -m autotune.trainers.probe cuda|cpu      # one JSON line: {"seconds": [one for each]}

A GPU that throttles, or a host whose cores are taken, shows here before any trial.
"""

import json
import sys
import time
from statistics import median

import torch

from autotune.model import DeviceKind

SIZES = {DeviceKind.CUDA: 8192, DeviceKind.CPU: 768}
"""Of square matrices: some milliseconds on an A100, and on a core."""
REPEATS = 20
WARMUPS = 5


def main(kind: str) -> None:
    """Print the seconds."""
    device = DeviceKind(kind)
    count = torch.cuda.device_count() if device is DeviceKind.CUDA else 1
    seconds = [matmul_s(device, index) for index in range(count)]
    sys.stdout.write(json.dumps({"seconds": seconds}) + "\n")


def matmul_s(kind: DeviceKind, index: int) -> float:
    """Seconds of one multiplication on a device: the median, so that no single hiccup counts."""
    device = torch.device("cuda", index) if kind is DeviceKind.CUDA else torch.device("cpu")
    dtype = torch.bfloat16 if kind is DeviceKind.CUDA else torch.float32
    matrix = torch.randn(SIZES[kind], SIZES[kind], device=device, dtype=dtype)
    times = []
    for _ in range(WARMUPS + REPEATS):
        began = time.perf_counter()
        matrix @ matrix
        if kind is DeviceKind.CUDA:
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - began)
    return median(times[WARMUPS:])


if __name__ == "__main__":
    main(*sys.argv[1:])
