"""Sizes of the built-in transformer: its parameters, and what backward needs of a forward.

All counts are elements unless their name says bytes. The formulas follow Korthikanti et al. 2022
("Reducing Activation Recomputation in Large Transformer Models", section 4.1) for this model: no
dropout, and attention by scaled_dot_product_attention, which never stores its matrix. Held against
the peak of live tensors that PyTorch's profiler shows on a CPU, they are exact to 1 % in float32.
"""

from autotune.model import ActivationCheckpointing, Form, TrainingSettings, TransformerConfig
from autotune.space.memory.job import FLOAT32_BYTES, MemoryJob

MASKED_SHARE = 0.15
"""Of the positions that an encoder predicts: BERT's, as in the trainers' workload."""
LOGIT_COPIES = 3
"""In float32 at the start of backward: log-softmax, its gradient, and the gradient of its input."""
BACKWARD_WIDTHS, BACKWARD_HIDDENS = 3, 2
"""A block's own temporaries in backward, per token: gradients of the stream, of a norm's output and
of attention's; of the MLP's two widest tensors."""


def root_parameters(config: TransformerConfig) -> int:
    """Outside of the blocks: embeddings (the output layer is one of them) and the last norm."""
    if config.llama:
        return config.vocabulary * config.width + config.width
    return (config.vocabulary + config.sequence) * config.width + 2 * config.width


def block_parameters(config: TransformerConfig) -> int:
    """Of one block."""
    return (config.parameters - root_parameters(config)) // config.layers


def largest_parameter(config: TransformerConfig) -> int:
    """The largest single tensor."""
    return config.width * max(config.vocabulary, config.hidden, config.width)


def tokens(config: TransformerConfig, settings: TrainingSettings) -> int:
    """Positions of one micro-batch."""
    return settings.micro_batch * config.sequence


def block_bytes(job: MemoryJob, settings: TrainingSettings) -> int:
    """Activations of one block that backward needs, its input included."""
    return sum(count * size for count, size in _kept_by_block(job, settings))


def _kept_by_block(job: MemoryJob, settings: TrainingSettings) -> list[tuple[int, int]]:
    """How many tensors of how many bytes.

    Per token: the stream before each norm; the norms' outputs; query, key, value; attention's
    output; before and after GELU (for SwiGLU: gate, its SiLU, up, and their product). Autocast
    leaves the stream in float32. Not counted: the norms' and softmax's statistics.
    """
    config = job.config
    element = tokens(config, settings) * job.compute_bytes(settings)
    kv_width = config.width // config.heads * (config.kv_heads or config.heads)
    # RMSNorm isn't fused and keys and values are repeated on CPU; measured as three widths.
    unfused = 3 if config.llama and not job.is_cuda else 0
    return [
        (2, checkpoint_bytes(job, settings)),
        (4 + unfused, config.width * element),
        (2, kv_width * element),
        (4 if config.llama else 2, config.hidden * element),
    ]


def checkpoint_bytes(job: MemoryJob, settings: TrainingSettings) -> int:
    """What a checkpointed block keeps: its input."""
    stream = FLOAT32_BYTES if job.autocasts(settings) else job.compute_bytes(settings)
    return tokens(job.config, settings) * job.config.width * stream


def kept_bytes(job: MemoryJob, settings: TrainingSettings) -> int:
    """Activations when the loss has been computed: of all blocks, and of the head."""
    layers = job.config.layers
    checkpointed = {
        ActivationCheckpointing.NONE: 0,
        ActivationCheckpointing.EVERY_SECOND_BLOCK: (layers + 1) // 2,
        ActivationCheckpointing.EVERY_BLOCK: layers,
    }[settings.activation_checkpointing]
    blocks = (layers - checkpointed) * block_bytes(job, settings)
    head = 2 * checkpoint_bytes(job, settings)
    return blocks + checkpointed * checkpoint_bytes(job, settings) + head


def backward_bytes(
    job: MemoryJob, settings: TrainingSettings, *, most_of_one: int | None = None
) -> int:
    """Activations of the block whose backward runs last, and what its backward makes beside.

    `most_of_one`: bytes that a single tensor counts for at most.
    """
    config = job.config
    element = tokens(config, settings) * job.compute_bytes(settings)
    tensors = [
        *_kept_by_block(job, settings),
        (BACKWARD_WIDTHS, config.width * element),
        (BACKWARD_HIDDENS, config.hidden * element),
    ]
    most = max(size for _, size in tensors) if most_of_one is None else most_of_one
    return sum(count * min(size, most) for count, size in tensors)


def logit_bytes(config: TransformerConfig, settings: TrainingSettings) -> int:
    """Logits and loss, which are in float32 whatever the model computes in."""
    positions = config.sequence
    if config.form is Form.ENCODER:
        positions = round(MASKED_SHARE * config.sequence)
    return settings.micro_batch * positions * config.vocabulary * FLOAT32_BYTES * LOGIT_COPIES
