"""What the host has too little of: shared memory, disk, memory, descriptors, processes."""

from autotune.diagnosis.signature import Role, Signature
from autotune.model import Outcome

SIGNATURES = (
    Signature(
        name="shared-memory",
        texts=(
            "DataLoader worker … is killed by signal: Bus error",
            "Unexpected bus error encountered in worker",
            "insufficient shared memory (shm)",
            "unable to write to file <",
            "unable to resize file <",
            "unable to open shared memory object",
            "unable to allocate shared memory",
            "Couldn't allocate shared memory segment",
            "unable to mmap … bytes from file <",
        ),
        outcome=Outcome.ENVIRONMENT,
        cause="/dev/shm is too small or full for the data loader's workers",
        action="make it larger (docker: --shm-size=8g or --ipc=host; Kubernetes: an emptyDir with "
        "medium Memory at /dev/shm), or use fewer workers",
        source="PyTorch 1.0 and newer",
    ),
    Signature(
        name="worker-killed",
        texts=("DataLoader worker … is killed by signal: Killed",),
        outcome=Outcome.OUT_OF_MEMORY,
        cause="a data-loader worker was killed, most likely since the host's memory ran out",
        action="use fewer workers or a smaller prefetch factor, or give the job more host memory",
        source="PyTorch 1.0 and newer",
    ),
    Signature(
        name="disk-full",
        texts=("No space left on device", "Disk quota exceeded", "database or disk is full"),
        outcome=Outcome.ENVIRONMENT,
        cause="a disk, /dev/shm or a quota is full",
        action="free space where the line says (df -h; df -i for inodes), also in /tmp",
        source="Linux, through Python and NCCL",
    ),
    Signature(
        name="host-allocation",
        texts=(
            "DefaultCPUAllocator: can't allocate memory",
            "DefaultCPUAllocator: not enough memory",
            "std::bad_alloc",
            "Cannot allocate memory",
            "MemoryError",
            "Unable to allocate … with shape",
        ),
        outcome=Outcome.OUT_OF_MEMORY,
        cause="the host's memory, or the process's limit of it, ran out",
        action="give the job more host memory (ulimit -v, the container's limit), or load less of "
        "the data set and of checkpoints at once",
        source="PyTorch, C++, Python, NumPy",
    ),
    Signature(
        name="open-files",
        texts=("Too many open files", "received 0 items of ancdata"),
        outcome=Outcome.ENVIRONMENT,
        cause="the process has used up its file descriptors",
        action="raise the limit (ulimit -n 65536), or use the sharing strategy file_system: "
        "torch.multiprocessing.set_sharing_strategy",
        source="Linux, PyTorch's data loader",
    ),
    Signature(
        name="no-threads",
        texts=(
            "Resource temporarily unavailable",
            "can't start new thread",
            "pthread_create failed",
        ),
        outcome=Outcome.ENVIRONMENT,
        role=Role.CLUE,
        cause="the host has no room for another process or thread",
        action="raise the limits (ulimit -u, the container's pids limit), or set OMP_NUM_THREADS=1",
        source="Linux, Python, OpenMP",
    ),
    Signature(
        name="read-only",
        texts=("Read-only file system", "Stale file handle", "Transport endpoint is not connected"),
        outcome=Outcome.ENVIRONMENT,
        cause="a file system is read-only or gone",
        action="mount it again, or write elsewhere",
        source="Linux",
    ),
    Signature(
        name="worker-exited",
        texts=(
            "DataLoader worker (pid(s) … exited unexpectedly",
            "DataLoader worker … exited unexpectedly with exit code",
            "DataLoader worker … is killed by signal",
        ),
        outcome=Outcome.CRASHED,
        role=Role.SYMPTOM,
        cause="a data-loader worker died",
        action="run with num_workers=0 for its traceback; look for `Out of memory` in dmesg",
        source="PyTorch 1.0 and newer",
    ),
)
