"""What torchrun and schedulers say of ranks' ends (torch.distributed.elastic 1.9 to 2.14).

Exit codes stand in `failed (exitcode: -9) local_rank: …` and, in the summary, in
`exitcode  : -9 (pid: …)`; 128 + N where a shell was between.
"""

from autotune.diagnosis.signature import Role, Signature
from autotune.model import Outcome

_SOURCE = "torchrun 1.9 and newer, shells"


def _exit(*codes: int) -> tuple[str, ...]:
    return tuple(
        text
        for code in codes
        for text in (
            f"failed (exitcode: {code})",
            f"exitcode : {code} (pid",
            f"exit code {code}",
            f"exited with code {code}",
            f"exit status {code}",
        )
    )


def _signal(number: int, name: str) -> tuple[str, ...]:
    return (*_exit(-number, 128 + number), f"Signal {number} ({name}) received by PID")


SIGNATURES = (
    Signature(
        name="preempted",
        texts=(
            "DUE TO PREEMPTION",
            "Spot Instance interruption",
            "spot instance termination",
            "EC2 Spot … interruption",
            "is being preempted",
        ),
        outcome=Outcome.PREEMPTED,
        role=Role.MACHINE,
        cause="the machine was taken away",
        action="run again; autotune resume goes on where it was",
        source="Slurm, EC2, Kubernetes",
    ),
    Signature(
        name="scheduler-limit",
        texts=("DUE TO TIME LIMIT", "MaxRuntimeExceeded", "DeadlineExceeded: Job was active"),
        outcome=Outcome.TIMED_OUT,
        role=Role.MACHINE,
        cause="the scheduler's time limit ended the job",
        action="ask for more time, or give the run a smaller --budget",
        source="Slurm, SageMaker, Kubernetes",
    ),
    Signature(
        name="placement",
        texts=(
            "InsufficientInstanceCapacity",
            "InsufficientCapacityError",
            "CapacityError: Unable to provision",
            "Insufficient nvidia.com/gpu",
            "The following resource request cannot be scheduled",
            "placement group … infeasible",
        ),
        outcome=Outcome.PLACEMENT,
        cause="there is no free machine of the kind that was asked for",
        action="run again later, in another zone, or with fewer nodes",
        source="EC2, SageMaker, Kubernetes, Ray",
    ),
    Signature(
        name="node-lost",
        texts=("DUE TO NODE FAILURE", "NODE_FAIL", "NodeDiedError", "slurmstepd: … node failure"),
        outcome=Outcome.ENVIRONMENT,
        role=Role.MACHINE,
        cause="a node of the job is gone",
        action="run again on other nodes",
        source="Slurm, Ray",
    ),
    Signature(
        name="ended-by-sigterm",
        texts=(
            *_signal(15, "SIGTERM"),
            "closing signal SIGTERM",
            "SignalException: Process … got signal: 15",
            "Unable to shutdown process",
        ),
        outcome=Outcome.CRASHED,
        role=Role.VICTIM,
        cause="it was told to end (SIGTERM), since another rank failed or somebody stopped the job",
        action="look at the log of the rank that ended first",
        source=_SOURCE,
    ),
    Signature(
        name="interrupted",
        texts=(
            "KeyboardInterrupt",
            "SignalException: Process … got signal: 2",
            "CANCELLED AT",
            "closing signal SIGINT",
            *_signal(2, "SIGINT"),
        ),
        outcome=Outcome.CANCELLED,
        cause="a person, or the scheduler, stopped the job",
        action="run it again",
        source="Python, torchrun, Slurm",
    ),
    Signature(
        name="killed",
        texts=_signal(9, "SIGKILL"),
        outcome=Outcome.OUT_OF_MEMORY,
        role=Role.SYMPTOM,
        cause="it was killed (SIGKILL), most often by the kernel since the host's memory ran out",
        action="look for `Out of memory` in dmesg of its host; if there is none, somebody or the "
        "scheduler killed it",
        source=_SOURCE,
    ),
    Signature(
        name="bus-error",
        texts=(*_signal(7, "SIGBUS"), "Fatal Python error: Bus error"),
        outcome=Outcome.ENVIRONMENT,
        role=Role.SYMPTOM,
        cause="it was ended by SIGBUS, most often since /dev/shm is full",
        action="make /dev/shm larger (docker: --shm-size=8g or --ipc=host)",
        source=_SOURCE,
    ),
    Signature(
        name="segmentation-fault",
        texts=(
            *_signal(11, "SIGSEGV"),
            "Fatal Python error: Segmentation fault",
            "Caught signal 11 (Segmentation fault",
            "Segmentation fault (core dumped)",
        ),
        outcome=Outcome.CRASHED,
        role=Role.SYMPTOM,
        cause="it was ended by SIGSEGV: native code accessed memory that it may not",
        action="run with PYTHONFAULTHANDLER=1 for the stack; drop custom extensions and plugins "
        "(NCCL_NET_PLUGIN=none, NCCL_TUNER_PLUGIN=none) one after the other",
        source=_SOURCE,
    ),
    Signature(
        name="exception",
        texts=("Traceback (most recent call last)",),
        outcome=Outcome.CRASHED,
        role=Role.SYMPTOM,
        cause="the program raised an exception",
        action="read its traceback, which ends with the quoted line",
        source="Python",
    ),
    Signature(
        name="aborted",
        texts=(
            *_signal(6, "SIGABRT"),
            "Fatal Python error: Aborted",
            "terminate called after throwing an instance",
            "terminate called without an active exception",
        ),
        outcome=Outcome.CRASHED,
        role=Role.ENDED,
        cause="it aborted (SIGABRT): native code, often a watchdog, gave up",
        action="the lines before it in its log say why",
        source=_SOURCE,
    ),
    Signature(
        name="exited",
        texts=(
            *_exit(1),
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError",
        ),
        outcome=Outcome.CRASHED,
        role=Role.ENDED,
        cause="it exited with an error",
        action="see the traceback in its own log (torchrun --log-dir DIR --redirects 3 keeps one "
        "for each rank)",
        source=_SOURCE,
    ),
)
