"""From an exception to the kind of failure."""

import pytest
import torch
import torch.distributed as dist

from autotune.errors import FieldError
from autotune.model.protocol import FailureKind, from_line, to_line
from autotune.trainers.channel import ProtocolError
from autotune.trainers.failures import RankError, failed, kind_of

CASES = [
    (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), "out_of_memory"),
    (MemoryError(), "out_of_memory"),
    (RuntimeError("CUDA error: out of memory"), "out_of_memory"),
    (
        dist.DistBackendError(
            "NCCL error in: x.cpp:1, unhandled cuda error\nLast error:\n"
            "Failed to CUDA calloc 10485760 bytes"
        ),
        "out_of_memory",
    ),
    (
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"),
        "out_of_memory",
    ),
    (
        dist.DistBackendError(
            "NCCL error in: x.cpp:1, invalid usage\nLast error:\nError : no algorithm/protocol "
            "available for function AllGather with datatype ncclFloat32. NCCL_ALGO was set to tree."
        ),
        "invalid_knob",
    ),
    (
        dist.DistBackendError(
            "No algorithm/protocol nor symKernelId available for function Broadcast"
        ),
        "invalid_knob",
    ),
    (dist.DistBackendError('Unrecognized element token "rnig" when parsing'), "invalid_knob"),
    (dist.DistBackendError("Bootstrap : no socket interface found"), "invalid_knob"),
    (ValueError("reshard_after_forward as an int, it should be a factor of 4"), "invalid_knob"),
    (FieldError("shard_size", 3, "doesn't divide the number of ranks, 4"), "invalid_knob"),
    (
        dist.DistNetworkError("port: 1, name: EADDRINUSE, message: address already in use"),
        "environment",
    ),
    (dist.DistBackendError("Mismatched NCCL version detected : rank 0"), "environment"),
    (RuntimeError("[gloo] Connection closed by peer [127.0.0.1]:31337"), "collective"),
    (RuntimeError("[gloo] Timed out waiting 1000ms for recv operation to complete"), "collective"),
    (dist.DistNetworkError("The client socket has timed out after 1s"), "collective"),
    (dist.DistStoreError("wait timeout after 1000ms, keys: /a"), "collective"),
    (
        dist.DistBackendError(
            "NCCL error in: x.cpp:1, remote process exited or there was a network error"
        ),
        "collective",
    ),
    (BrokenPipeError(32, "Broken pipe"), "collective"),
    (RankError(FailureKind.NON_FINITE, "the loss of step 3 is nan"), "non_finite"),
    (ProtocolError("the launcher's answer can't be read: timed out"), "error"),
    (ZeroDivisionError("division by zero"), "error"),
    (KeyboardInterrupt(), "error"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "kind"), CASES, ids=[str(case[0])[:40] for case in CASES])
def test_kind_of_failure(error: BaseException, kind: str) -> None:
    assert kind_of(error).value == kind


def test_the_message_holds_what_happened_and_survives_the_channel() -> None:
    try:
        raise RuntimeError("weights gone\nand biases — too")
    except RuntimeError as error:
        message = failed(3, error)
    assert (message.rank, message.exception) == (3, "RuntimeError")
    assert "weights gone" in message.message
    assert "test_trainers_failures.py" in message.traceback
    assert from_line(to_line(message)) == message
