"""What a CPU rank's memory holds beside live tensors: Gloo's copies, and what glibc keeps.

glibc asks the kernel for each allocation of 32 MiB and more, and returns it when it is freed
(mallopt(3), M_MMAP_THRESHOLD: it grows up to DEFAULT_MMAP_THRESHOLD_MAX). Smaller ones come from a
heap whose holes stay with the process. It is no leak: with MALLOC_MMAP_THRESHOLD_ at 1 MiB, which
has them returned as well, peaks fall to what is alive.
"""

from autotune.model import TrainingSettings
from autotune.space.memory import transformer
from autotune.space.memory.job import FLOAT32_BYTES, MemoryJob
from autotune.space.memory.sharding import group_parameters
from autotune.space.memory.transformer import block_parameters, root_parameters

RETURNED_BYTES = 32 << 20
"""Of one allocation from which on it is given back: see above."""
GLOO_THREADS = 2
"""That run collectives, each with a heap of its own: ProcessGroupGloo's default."""
HEAP_COPIES = 2.5
"""Of all parameters. Under FSDP2 they are gathered and freed block by block, in forward and again
in backward, and whole gradients after them, all among activations that stay: three copies at most.
2.5 is what the trials of benchmarks/memory_model.py show (PyTorch 2.13, glibc 2.36), without those
of the held-out shapes."""


def gloo_bytes(job: MemoryJob, settings: TrainingSettings) -> int:
    """Flat copies of the largest group, in which Gloo gathers parameters and reduces gradients.

    Seen by the peaks of single collectives: one copy of the whole, which stays with the thread if
    it is small, and the other thread makes its own; an all-reduce, as in DDP, needs 2 MiB.
    """
    if job.is_cuda or not settings.strategy.is_fsdp:
        return 0
    element = max(job.compute_bytes(settings), job.reduce_bytes(settings))
    copy = max(root_parameters(job.config), group_parameters(job, settings)) * element
    return copy + (GLOO_THREADS - 1) * min(copy, RETURNED_BYTES)


def heap_bytes(job: MemoryJob, settings: TrainingSettings) -> int:
    """Holes in the heap: of one block's backward, and of gathered parameters."""
    if job.is_cuda:
        return 0
    # At most the threshold for each tensor, not nothing above it: what needs more anywhere must not
    # seem to need less here, or it would be launched after less has run out of memory.
    backward = transformer.backward_bytes(job, settings, most_of_one=RETURNED_BYTES)
    gathered = HEAP_COPIES * _kept_parameters(job) if settings.strategy.is_fsdp else 0
    return backward + round(gathered * job.compute_bytes(settings))


def _kept_parameters(job: MemoryJob) -> int:
    """In tensors that are small enough to come from the heap."""
    config = job.config
    parts = (
        (root_parameters(config), config.vocabulary * config.width),
        (config.layers * block_parameters(config), config.width * max(config.hidden, config.width)),
    )
    return sum(
        all_of_it for all_of_it, largest in parts if largest * FLOAT32_BYTES < RETURNED_BYTES
    )
