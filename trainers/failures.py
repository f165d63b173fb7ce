"""Which kind of failure an exception is, as far as a rank can tell by itself."""

import re
import traceback

import torch

from autotune.errors import AutotuneError, FieldError
from autotune.model.protocol import Failed, FailureKind
from autotune.trainers.user_code import user_line


class RankError(AutotuneError):
    """A failure that the rank program itself has found, of a known kind."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


# Texts of PyTorch 2.6 to 2.13, NCCL 2.21 to 2.31 and Gloo. The first match counts: a refused knob
# and an exhausted memory arrive inside of errors that speak of collectives too.
_TEXTS: tuple[tuple[FailureKind, str], ...] = (
    (
        FailureKind.OUT_OF_MEMORY,
        r"out of memory|Failed to CUDA [cm]alloc|DefaultCPUAllocator: can't allocate memory",
    ),
    (
        FailureKind.INVALID_KNOB,
        r"no algorithm/protocol|Unrecognized (?:element|prefix) token"
        r"|entries except the first must have a prefix"
        r"|no socket interface found|No usable listening interface|Unable to find address for"
        r"|Invalid NCCL_\w+|reshard_after_forward",
    ),
    (
        FailureKind.ENVIRONMENT,
        r"address already in use|Mismatched NCCL version|No space left on device"
        r"|Duplicate GPU detected|Multiple Ranks are using the same GPU|invalid device ordinal"
        r"|system not yet initialized|no kernel image is available|uncorrectable ECC"
        r"|shared memory segment",
    ),
    (
        FailureKind.COLLECTIVE,
        r"Connection (?:closed|reset|refused)|Broken pipe|connectFullMesh|Connect(?:ion)? timeout"
        r"|timed out|Timed out|wait timeout|failed to recv|recvValue failed|Read error|Write error"
        r"|remote process exited|socketProgress|Stop_waiting response|collective operation timeout",
    ),
)


def kind_of(error: BaseException) -> FailureKind:
    """The kind of `error`, from its class where that is enough, else from its text."""
    if isinstance(error, RankError):
        return error.kind
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return FailureKind.OUT_OF_MEMORY
    if isinstance(error, FieldError):
        return FailureKind.INVALID_KNOB
    if isinstance(error, AutotuneError):
        return FailureKind.ERROR
    for kind, pattern in _TEXTS:
        if re.search(pattern, str(error), re.IGNORECASE):
            return kind
    if isinstance(error, torch.distributed.DistError | ConnectionError | TimeoutError):
        return FailureKind.COLLECTIVE
    return FailureKind.ERROR


def failed(rank: int, error: BaseException) -> Failed:
    """The message that tells the launcher about `error`, with the user's line it comes from."""
    line = user_line(error)
    return Failed(
        rank=rank,
        kind=kind_of(error),
        exception=type(error).__name__,
        message=f"{error} ({line})" if line else str(error),
        traceback="".join(traceback.format_exception(error)),
    )
