"""What a GPU's name tells: its compute capability."""

import re

_CAPABILITIES = {
    "V100": 70,
    "T4": 75,
    "A100": 80,
    "A800": 80,
    "A30": 80,
    "A10G": 86,
    "A10": 86,
    "A40": 86,
    "RTX A6000": 86,
    "L4": 89,
    "L40": 89,
    "L40S": 89,
    "H100": 90,
    "H200": 90,
    "GH200": 90,
    "H20": 90,
    "B200": 100,
    "GB200": 100,
    "B300": 103,
    "GB300": 103,
    "RTX PRO 6000": 120,
}
"""Major and minor together. Source: developer.nvidia.com/cuda-gpus."""


def is_model(driver_name: str, model: str) -> bool:
    """Whether `model` is in `driver_name` as whole words: an L4 is no L40S."""
    words = re.findall(r"[a-z0-9]+", driver_name.lower())
    wanted = re.findall(r"[a-z0-9]+", model.lower())
    starts = range(len(words) - len(wanted) + 1)
    return bool(wanted) and any(words[i : i + len(wanted)] == wanted for i in starts)


def compute_capability(name: str) -> int:
    """Of the GPU called `name`; 0 if it isn't known."""
    return next((code for model, code in _CAPABILITIES.items() if is_model(name, model)), 0)
