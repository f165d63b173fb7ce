"""What the kernel and the NVIDIA driver log (dmesg, journalctl -k).

Xid numbers: https://docs.nvidia.com/deploy/xid-errors. Those of the hardware put the node at fault,
those that a program provokes don't.
"""

from autotune.diagnosis.signature import Role, Signature
from autotune.model import Outcome

_SOURCE = "NVIDIA driver, `NVRM: Xid (PCI:0000:01:00): N, ...`; older ones without `PCI:`"
_REPLACE = "drain the node, reset or replace the GPU, and run again on another node"


def _xid(*numbers: int) -> tuple[str, ...]:
    return tuple(f"Xid ( … ): {number}" for number in numbers)


SIGNATURES = (
    Signature(
        name="xid-off-the-bus",
        texts=(*_xid(79), "GPU has fallen off the bus"),
        outcome=Outcome.ENVIRONMENT,
        role=Role.MACHINE,
        cause="a GPU has fallen off the bus (Xid 79)",
        action=_REPLACE,
        source=_SOURCE,
    ),
    Signature(
        name="xid-memory",
        texts=_xid(48, 64, 95),
        outcome=Outcome.ENVIRONMENT,
        role=Role.MACHINE,
        cause="a GPU's memory has errors that can't be corrected (Xid 48, 64 or 95)",
        action=_REPLACE,
        source=_SOURCE,
    ),
    Signature(
        name="xid-memory-contained",
        texts=_xid(94),
        outcome=Outcome.ENVIRONMENT,
        role=Role.MACHINE,
        cause="a GPU's memory error ended the programs that used it (Xid 94, contained)",
        action="run again; if it comes back, reset the GPU and take another node",
        source=_SOURCE,
    ),
    Signature(
        name="xid-nvlink",
        texts=_xid(74),
        outcome=Outcome.ENVIRONMENT,
        role=Role.MACHINE,
        cause="an NVLink between GPUs has failed (Xid 74)",
        action=_REPLACE,
        source=_SOURCE,
    ),
    Signature(
        name="xid-gsp",
        texts=(*_xid(119, 120), "Timeout waiting for RPC from GSP"),
        outcome=Outcome.ENVIRONMENT,
        role=Role.MACHINE,
        cause="a GPU's system processor doesn't answer (Xid 119 or 120)",
        action="reset the GPU or reboot the node, and run again on another node",
        source=_SOURCE,
    ),
    Signature(
        name="xid-worn-memory",
        texts=_xid(63, 92, 154),
        outcome=Outcome.ENVIRONMENT,
        role=Role.SYMPTOM,
        cause="a GPU asks for a reset: memory rows were remapped or errors are frequent "
        "(Xid 63, 92 or 154)",
        action="reset the GPU, then run again",
        source=_SOURCE,
    ),
    Signature(
        name="xid-program",
        texts=_xid(13, 31),
        outcome=Outcome.CRASHED,
        role=Role.SYMPTOM,
        cause="a program made the GPU access memory that it may not, or compute what it can't "
        "(Xid 13 or 31)",
        action="run with CUDA_LAUNCH_BLOCKING=1, or under compute-sanitizer, to see which kernel; "
        "if it comes back on one GPU only, test that GPU",
        source=_SOURCE,
    ),
    Signature(
        name="xid-stopped",
        texts=_xid(43, 45),
        outcome=Outcome.CRASHED,
        role=Role.VICTIM,
        cause="the driver cleaned up after a program that had failed or was ended (Xid 43 or 45)",
        action="look for an earlier Xid in the kernel's log, and for the rank that failed first",
        source=_SOURCE,
    ),
    Signature(
        name="host-out-of-memory",
        texts=(
            "Out of memory: Killed process",
            "Out of memory: Kill process",
            "Memory cgroup out of memory",
            "oom-kill:constraint=",
            "invoked oom-killer",
            "oom_reaper: reaped process",
            "Detected … oom-kill event",
            "Detected … oom_kill event",
            "OOMKilled",
            "ray.exceptions.OutOfMemoryError",
            "Task was killed due to the node running low on memory",
        ),
        outcome=Outcome.OUT_OF_MEMORY,
        role=Role.MACHINE,
        cause="the host's memory, or that of its control group, ran out and the kernel killed a "
        "process",
        action="give the job more host memory, or use fewer data-loader workers, less pinned "
        "memory and no offload to the CPU",
        source="Linux 3 to 6 (dmesg), Slurm, Kubernetes, Ray",
    ),
)
