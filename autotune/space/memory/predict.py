"""Predicts a candidate's peak memory per rank, before it is launched."""

from collections.abc import Mapping
from dataclasses import dataclass

from autotune.model import DeviceKind, TrainingSettings
from autotune.space.memory import host, sharding, transformer
from autotune.space.memory.job import BFLOAT16_BYTES, FLOAT32_BYTES, MemoryJob
from autotune.space.memory.nccl_buffers import nccl_bytes
from autotune.space.memory.predicted import PredictedMemory

ADAMW_MOMENTS = 2
"""Tensors as large as the parameters: torch/optim/adamw.py, exp_avg and exp_avg_sq."""
ADAMW_TEMPORARIES = 2
"""Of the parameter that is being updated, where the update isn't one fused kernel: the square root
and the quotient in torch/optim/adam.py, _single_tensor_adam."""
CUDA_CONTEXT_BYTES = 512 << 20
"""Context, loaded kernels and libraries' handles on a data-centre GPU: 300 to 600 MiB by common
report. No GPU has confirmed it."""
CPU_PROCESS_BYTES = 224 << 20
"""Of a rank that trains next to nothing, without pages of files: interpreter, PyTorch, threads of
Gloo and OpenMP. Measured as `bare` in benchmarks/memory_model.py (PyTorch 2.13, x86-64), the same
to 1 MiB whether it was forked or not."""


@dataclass(frozen=True, kw_only=True)
class _Moment:
    """What is alive at one point of a step, beside what always is."""

    casts: int = 0
    gradients: int = 0
    temporaries: int = 0
    unsharded_parameters: int = 0
    unsharded_gradients: int = 0
    activations: int = 0
    logits: int = 0

    @property
    def total_bytes(self) -> int:
        return sum(vars(self).values())


def predict(
    job: MemoryJob, settings: TrainingSettings, environment: Mapping[str, str]
) -> PredictedMemory:
    """The peak per rank of `settings` under the candidate's `environment`.

    On CUDA it is the largest sum over the moments of a step. On CPU what was freed mostly stays
    with the process, so that each component counts at its own largest. Not counted: the batch,
    libraries' workspaces (cuBLAS: 32 MiB at most), and what torch.compile saves or takes.
    """
    share = _share_bytes(job, settings)
    moments = [_loss(job, settings), _end_of_backward(job, settings), _update(job, settings)]
    peak = max(moments, key=lambda moment: moment.total_bytes)
    if job.device is DeviceKind.CPU:
        peak = _at_their_largest(moments)
    return PredictedMemory(
        device=job.device,
        parameters=share,
        casts=peak.casts,
        optimizer=ADAMW_MOMENTS * share + peak.temporaries,
        gradients=peak.gradients,
        unsharded_parameters=peak.unsharded_parameters,
        unsharded_gradients=peak.unsharded_gradients,
        buckets=sharding.bucket_bytes(job, settings),
        activations=peak.activations,
        logits=peak.logits,
        nccl=nccl_bytes(job, settings, environment),
        process=CUDA_CONTEXT_BYTES if job.is_cuda else CPU_PROCESS_BYTES,
        gloo=host.gloo_bytes(job, settings),
        heap=host.heap_bytes(job, settings),
    )


def _share_bytes(job: MemoryJob, settings: TrainingSettings) -> int:
    """Parameters, or gradients, of one rank in float32."""
    return -(-job.config.parameters // job.shards(settings)) * FLOAT32_BYTES


def _gradient_bytes(job: MemoryJob, settings: TrainingSettings) -> int:
    """As views, gradients lie in DDP's buckets."""
    return 0 if settings.gradient_as_bucket_view else _share_bytes(job, settings)


def _loss(job: MemoryJob, settings: TrainingSettings) -> _Moment:
    """The loss's own backward: all activations, and gradients of earlier micro-batches."""
    is_first = settings.accumulation_steps == 1
    is_replicated = not settings.strategy.is_fsdp
    keeps_gradients = is_replicated and not is_first
    return _Moment(
        casts=job.config.parameters * BFLOAT16_BYTES if job.autocasts(settings) else 0,
        gradients=_gradient_bytes(job, settings) if keeps_gradients else 0,
        unsharded_parameters=sharding.gathered_bytes(job, settings),
        unsharded_gradients=sharding.accumulated_bytes(job, settings),
        activations=transformer.kept_bytes(job, settings),
        logits=transformer.logit_bytes(job.config, settings),
    )


def _end_of_backward(job: MemoryJob, settings: TrainingSettings) -> _Moment:
    """The first block's backward: accumulated gradients turn into this rank's share of them."""
    gradients = _gradient_bytes(job, settings)
    waiting = max(0, sharding.accumulated_bytes(job, settings) - gradients)
    return _Moment(
        gradients=gradients,
        unsharded_parameters=sharding.gathered_bytes(job, settings),
        unsharded_gradients=waiting + sharding.reduced_bytes(job, settings),
        activations=transformer.backward_bytes(job, settings),
    )


def _update(job: MemoryJob, settings: TrainingSettings) -> _Moment:
    """The optimizer's step."""
    largest = -(-transformer.largest_parameter(job.config) // job.shards(settings))
    return _Moment(
        gradients=_gradient_bytes(job, settings),
        temporaries=0 if job.is_cuda else ADAMW_TEMPORARIES * largest * FLOAT32_BYTES,
    )


def _at_their_largest(moments: list[_Moment]) -> _Moment:
    names = vars(moments[0])
    return _Moment(**{name: max(getattr(one, name) for one in moments) for name in names})
