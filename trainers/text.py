"""Real text that every machine has: the sources of the standard library, as bytes.

What a sample holds follows from (seed, optimizer step, index in the global batch) alone, so that
every layout of a workload trains on the same samples, whichever rank and micro-batch they fall to.
"""

import sysconfig
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

LONGEST_TEXT = 4 << 20
"""Bytes."""


@cache
def corpus(device: torch.device) -> Tensor:
    """The text on `device`, uint8, loaded once; the host's copy is shared with forked processes."""
    if device.type != "cpu":
        return corpus(torch.device("cpu")).to(device)
    text = bytearray()
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        text += path.read_bytes()
        if len(text) >= LONGEST_TEXT:
            break
    return torch.frombuffer(text[:LONGEST_TEXT], dtype=torch.uint8)


def excerpts(
    *, seed: int, step: int, first: int, count: int, length: int, device: torch.device
) -> Tensor:
    """Samples `first` to `first + count` of a step's global batch: byte values, [count, length]."""
    text = corpus(device)
    index = torch.arange(first, first + count, device=device)
    start = scramble(index + (step << 32) + (seed << 48)) % (len(text) - length)
    return text[start.unsqueeze(1) + torch.arange(length, device=device)].long()


def choose_positions(
    *, seed: int, step: int, first: int, count: int, length: int, chosen: int, device: torch.device
) -> Tensor:
    """`chosen` different positions below `length` for each sample, ascending, [count, chosen].

    The same number for each sample, so that the mean over micro-batches is the mean over samples.
    """
    index = torch.arange(first, first + count, device=device)
    keys = scramble(index + (step << 32) + (seed << 48)).unsqueeze(1)
    order = scramble(keys + torch.arange(length, device=device)).argsort(dim=1)
    return order[:, :chosen].sort(dim=1).values


def scramble(x: Tensor) -> Tensor:
    """A non-negative pseudo-random integer for each integer of `x` (splitmix64's finalizer).

    Computed where `x` lies: a generator on the host would cost a copy for each batch.
    """
    x = x + _signed(0x9E3779B97F4A7C15)
    x = (x ^ _shift(x, 30)) * _signed(0xBF58476D1CE4E5B9)
    x = (x ^ _shift(x, 27)) * _signed(0x94D049BB133111EB)
    return (x ^ _shift(x, 31)) & 0x7FFFFFFFFFFFFFFF


def _shift(x: Tensor, bits: int) -> Tensor:
    """Right, with zeros moving in: torch's own shift repeats the sign."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _signed(x: int) -> int:
    return x - (1 << 64) if x >> 63 else x
