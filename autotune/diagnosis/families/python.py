"""What PyTorch and Python raise because of the program, not of the machine."""

from autotune.diagnosis.signature import Role, Signature
from autotune.model import Outcome

SIGNATURES = (
    Signature(
        name="non-finite",
        texts=(
            "for gradients from `parameters` is non-finite",
            "loss is nan",
            "loss is inf",
            "loss is not finite",
            "non-finite loss",
            "Loss scale … reached … minimum",
            "Current loss scale already at minimum",
            "returned nan values in its",
        ),
        outcome=Outcome.DIVERGED,
        cause="the loss or the gradients are not finite",
        action="use bfloat16 instead of float16, a lower learning rate or gradient clipping; "
        "TORCH_NCCL_NAN_CHECK=1 finds the first rank",
        source="PyTorch's clip_grad_norm_ and anomaly detection, DeepSpeed, training scripts",
    ),
    Signature(
        name="nan-printed",
        texts=(
            "loss: nan",
            "loss = nan",
            "loss=nan",
            "loss nan",
            "loss': nan",
            'loss": nan',
            "loss: inf",
            "loss = inf",
            "loss=inf",
            "loss': inf",
            'loss": inf',
            "grad_norm: nan",
            "grad_norm=nan",
            "grad_norm': nan",
            'grad_norm": nan',
        ),
        outcome=Outcome.DIVERGED,
        role=Role.SYMPTOM,
        cause="the loss or the gradients are not finite",
        action="use bfloat16 instead of float16, a lower learning rate or gradient clipping; "
        "TORCH_NCCL_NAN_CHECK=1 finds the first rank",
        source="no standard text: the usual forms of training scripts",
    ),
    Signature(
        name="ddp-unused-parameters",
        texts=("Expected to have finished reduction in the prior iteration",),
        outcome=Outcome.CRASHED,
        cause="some parameters got no gradient in a step, which DDP waits for",
        action="set find_unused_parameters=True, or make every parameter part of the loss on every "
        "rank",
        source="PyTorch 1.1 and newer",
    ),
    Signature(
        name="collective-mismatch",
        texts=(
            "Detected mismatch between collectives",
            "collectives differ in the following aspects",
            "appears not to match sizes of the same param in process",
            "appears not to match strides of the same param in process",
        ),
        outcome=Outcome.CRASHED,
        cause="the ranks call different collectives, or with different shapes",
        action="make all ranks build the same model and take the same branches; "
        "TORCH_DISTRIBUTED_DEBUG=DETAIL shows the first difference",
        source="PyTorch 1.11 and newer",
    ),
    Signature(
        name="import-error",
        texts=(
            "ModuleNotFoundError: No module named",
            "ImportError: cannot import name",
            "ImportError: … cannot open shared object file",
            "undefined symbol:",
            "error while loading shared libraries",
            "ImportError: … version … not found",
        ),
        outcome=Outcome.ENVIRONMENT,
        cause="a module or a library is not installed, or in a version that doesn't fit",
        action="install it into the environment that the ranks use, on every node",
        source="Python, the dynamic linker",
    ),
    Signature(
        name="unknown-program",
        texts=("can't open file … [Errno 2]", "exec: … : executable file not found"),
        outcome=Outcome.ENVIRONMENT,
        cause="the training script isn't there",
        action="check the path, on every node and inside the container",
        source="Python, container runtimes",
    ),
)
