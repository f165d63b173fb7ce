"""What PyTorch's watchdogs say when a collective takes too long (ProcessGroupNCCL 1.8 to 2.14)."""

from autotune.diagnosis.signature import Role, Signature
from autotune.model import Outcome

_STACKS = (
    "find the rank that is behind and its stack (py-spy dump --pid, or TORCH_NCCL_TRACE_BUFFER_SIZE"
    "=2000 and the flight recorder's dump); all ranks have to call the same collectives"
)

SIGNATURES = (
    Signature(
        name="collective-timeout",
        texts=(
            "Watchdog caught collective operation timeout",
            "Timeout at NCCL work",
            "Observed flight recorder dump signal from another rank",
            "Received a dump signal due to a collective timeout",
            "Received a timeout signal from this local rank",
            "timed out in blocking wait",
            "NCCL error … timeout",
        ),
        outcome=Outcome.HUNG,
        role=Role.WAITER,
        cause="it waited in vain for other ranks in a collective",
        action=_STACKS,
        source="PyTorch 1.8 and newer",
    ),
    Signature(
        name="watchdog-stuck",
        texts=(
            "ProcessGroupNCCL's watchdog got stuck for",
            "watchdog thread got stuck",
            "Heartbeat monitor timed out",
            "Terminating the process after attempting to dump debug info",
        ),
        outcome=Outcome.HUNG,
        role=Role.WAITER,
        cause="its watchdog made no progress: a CUDA call hangs, often since another rank is gone",
        action=_STACKS,
        source="PyTorch 2.2 and newer",
    ),
    Signature(
        name="watchdog-ended",
        texts=(
            "Process group watchdog thread terminated with exception",
            "NCCL watchdog thread terminated with exception",
            "failure detected by watchdog at work sequence id",
            "Exception (either an error or timeout) detected by watchdog",
            "Some NCCL operations have failed or timed out",
            "To avoid data inconsistency, we are taking the entire process down",
            "To avoid this inconsistency, we are taking the entire process down",
            "Stack trace of the failed collective",
        ),
        outcome=Outcome.HUNG,
        role=Role.ENDED,
        cause="its watchdog gave up on a collective that failed or took too long",
        action="look at the logs of the other ranks for one that failed; if there is none, "
        + _STACKS,
        source="PyTorch 1.8 and newer; `this inconsistency` until 1.13",
    ),
)
