"""What CUDA, cuBLAS and PyTorch's allocator say: texts of PyTorch 1.8 to 2.14."""

from autotune.diagnosis.signature import Role, Signature
from autotune.model import Outcome

_CUDA = "CUDA 11 to 13, through PyTorch; from 2.9 as torch.AcceleratorError"

SIGNATURES = (
    Signature(
        name="cuda-out-of-memory",
        texts=(
            "CUDA out of memory",
            "HIP out of memory",
            "CUDA error: out of memory",
            "torch.OutOfMemoryError",
            "torch.cuda.OutOfMemoryError",
            "cudaErrorMemoryAllocation",
            "CUDA_ERROR_OUT_OF_MEMORY",
            "CUBLAS_STATUS_ALLOC_FAILED",
            "CUDNN_STATUS_ALLOC_FAILED",
            "Tried to allocate … GPU … has a total capacty of",
            "Tried to allocate … GPU … has a total capacity of",
        ),
        outcome=Outcome.OUT_OF_MEMORY,
        cause="the GPU's memory ran out while the model was built or trained",
        action="use a smaller micro-batch with more accumulation steps, activation checkpointing, "
        "or a strategy that shards more; if much is reserved but unallocated, set "
        "PYTORCH_ALLOC_CONF=expandable_segments:True (before 2.10 PYTORCH_CUDA_ALLOC_CONF)",
        source="PyTorch 1.8 and newer: torch.cuda.OutOfMemoryError until 2.4, `capacty` in 2.0 and "
        "2.1; cuBLAS and cuDNN",
    ),
    Signature(
        name="cuda-ecc",
        texts=("uncorrectable ECC error", "uncorrectable NVLink error"),
        outcome=Outcome.ENVIRONMENT,
        role=Role.MACHINE,
        cause="the GPU's memory or its NVLink has errors that can't be corrected",
        action="drain the node, reset or replace the GPU, and run again on another node",
        source=_CUDA,
    ),
    Signature(
        name="cuda-fabric-manager",
        texts=("system not yet initialized", "CUDA_ERROR_SYSTEM_NOT_READY", "Cuda failure 802"),
        outcome=Outcome.ENVIRONMENT,
        role=Role.MACHINE,
        cause="the GPUs' NVLink fabric is not up (CUDA error 802)",
        action="start nvidia-fabricmanager, in the version of the driver: "
        "systemctl status nvidia-fabricmanager",
        source=_CUDA,
    ),
    Signature(
        name="cuda-no-device",
        texts=(
            "CUDA error: invalid device ordinal",
            "CUDA error: no CUDA-capable device is detected",
            "No CUDA GPUs are available",
            "CUDA error: initialization error",
            "Found no NVIDIA driver on your system",
            "CUDA driver version is insufficient for CUDA runtime version",
            "The NVIDIA driver on your system is too old",
            "Driver/library version mismatch",
            "CUDA error: all CUDA-capable devices are busy or unavailable",
            "CUDA-capable device(s) is/are busy or unavailable",
        ),
        outcome=Outcome.ENVIRONMENT,
        cause="the process can't use the GPU that it was given",
        action="compare the number of ranks with nvidia-smi and CUDA_VISIBLE_DEVICES; check the "
        "driver, and that no CUDA call is made before a fork",
        source=_CUDA,
    ),
    Signature(
        name="cuda-no-kernel",
        texts=("no kernel image is available for execution", "CUBLAS_STATUS_ARCH_MISMATCH"),
        outcome=Outcome.ENVIRONMENT,
        cause="PyTorch, or an extension, was not built for this GPU",
        action="install a build whose torch.cuda.get_arch_list() has the GPU's architecture",
        source=_CUDA,
    ),
    Signature(
        name="nan-check",
        texts=("checkForNaN: block", "CUDA error during checkForNan"),
        outcome=Outcome.DIVERGED,
        cause="it was about to send values that are not numbers (NaN) to the other ranks",
        action="use bfloat16 instead of float16, a lower learning rate or gradient clipping",
        source="PyTorch 2.4 and newer with TORCH_NCCL_NAN_CHECK=1",
    ),
    Signature(
        name="cuda-assert",
        texts=(
            "device-side assert triggered",
            "CUDA_KERNEL_ASSERT",
            "block: [ … thread: [ … Assertion",
        ),
        outcome=Outcome.CRASHED,
        cause="a check inside a GPU kernel failed, most often an index or a label out of range",
        action="run with CUDA_LAUNCH_BLOCKING=1, or on the CPU, for the line; check labels and "
        "token ids against the sizes of the layers",
        source=_CUDA,
    ),
    Signature(
        name="cuda-illegal-access",
        texts=(
            "an illegal memory access was encountered",
            "unspecified launch failure",
            "misaligned address",
            "an illegal instruction was encountered",
            "the launch timed out and was terminated",
            "CUDA_ERROR_ILLEGAL_ADDRESS",
        ),
        outcome=Outcome.CRASHED,
        cause="a GPU kernel accessed memory that it may not",
        action="run with CUDA_LAUNCH_BLOCKING=1, or under compute-sanitizer, to see which; drop "
        "custom kernels and forced NCCL protocols (LL128); if it happens on one GPU only, test it",
        source=_CUDA,
    ),
    Signature(
        name="cublas",
        texts=(
            "CUBLAS_STATUS_NOT_INITIALIZED",
            "CUBLAS_STATUS_EXECUTION_FAILED",
            "CUBLAS_STATUS_INTERNAL_ERROR",
            "CUDNN_STATUS_EXECUTION_FAILED",
            "CUDNN_STATUS_INTERNAL_ERROR",
            "CUDNN_STATUS_NOT_INITIALIZED",
        ),
        outcome=Outcome.CRASHED,
        role=Role.SYMPTOM,
        cause="cuBLAS or cuDNN failed, often since memory is nearly full or an earlier kernel "
        "failed",
        action="leave more memory free; run with CUDA_LAUNCH_BLOCKING=1 for the kernel at fault",
        source="cuBLAS and cuDNN, through PyTorch",
    ),
    Signature(
        name="cuda-other",
        texts=(
            "RuntimeError: CUDA error",
            "torch.AcceleratorError",
            "Compile with TORCH_USE_CUDA_DSA",
            "Compile with `TORCH_USE_CUDA_DSA`",
            "NCCL WARN Cuda failure",
        ),
        outcome=Outcome.CRASHED,
        role=Role.SYMPTOM,
        cause="a CUDA call failed",
        action="the line names the error; run with CUDA_LAUNCH_BLOCKING=1 for the call at fault",
        source=_CUDA,
    ),
)
