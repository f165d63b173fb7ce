"""The built-in workloads, as data: the trainers build them, the command line lists them."""

from dataclasses import dataclass
from enum import StrEnum

from autotune.errors import FieldError


class Form(StrEnum):
    """What the transformer sees and is trained on."""

    ENCODER = "encoder"
    """Attends both ways; fills in masked bytes."""
    DECODER = "decoder"
    """Attends backwards; predicts the next byte."""


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Shape of a transformer and of its batch."""

    name: str
    help: str
    form: Form
    layers: int
    width: int
    heads: int
    kv_heads: int | None = None
    """Grouped-query attention; None is one for each head."""
    hidden: int
    """Width inside the MLP."""
    vocabulary: int
    sequence: int
    """Positions per sample."""
    llama: bool = False
    """RMSNorm, SwiGLU and rotary positions in place of LayerNorm, GELU and learned positions."""
    global_batch: int
    """Samples per optimizer step when the user names none."""

    @property
    def parameters(self) -> int:
        """Elements of the model, by arithmetic; a test holds it against the built model."""
        if self.llama:
            kv_width = self.width // self.heads * (self.kv_heads or self.heads)
            attention = 2 * self.width**2 + 2 * self.width * kv_width
            block = attention + 3 * self.width * self.hidden + 2 * self.width
            return self.vocabulary * self.width + self.layers * block + self.width
        attention = 4 * self.width**2 + 4 * self.width
        mlp = 2 * self.width * self.hidden + self.hidden + self.width
        block = attention + mlp + 4 * self.width
        embeddings = (self.vocabulary + self.sequence) * self.width
        return embeddings + self.layers * block + 2 * self.width


def _gpt2(
    name: str, layers: int, width: int, heads: int, batch: int, help_: str
) -> TransformerConfig:
    return TransformerConfig(
        name=name, help=help_, form=Form.DECODER, layers=layers, width=width, heads=heads,
        hidden=4 * width, vocabulary=50257, sequence=1024, global_batch=batch,
    )  # fmt: skip


def _bert(
    name: str, layers: int, width: int, heads: int, batch: int, help_: str
) -> TransformerConfig:
    return TransformerConfig(
        name=name, help=help_, form=Form.ENCODER, layers=layers, width=width, heads=heads,
        hidden=4 * width, vocabulary=30522, sequence=512, global_batch=batch,
    )  # fmt: skip


PRESETS: dict[str, TransformerConfig] = {
    preset.name: preset
    for preset in (
        TransformerConfig(
            name="tiny", help="a decoder for CPUs and smoke tests: a step takes milliseconds",
            form=Form.DECODER, layers=2, width=128, heads=4, hidden=512, vocabulary=256,
            sequence=64, global_batch=32,
        ),
        TransformerConfig(
            name="mini", help="a decoder for CPUs that has some communication to hide",
            form=Form.DECODER, layers=4, width=256, heads=8, hidden=1024, vocabulary=256,
            sequence=64, global_batch=32,
        ),
        _bert("bert-base", 12, 768, 12, 256, "BERT base, masked bytes, sequence 512"),
        _bert("bert-large", 24, 1024, 16, 256, "BERT large, masked bytes, sequence 512"),
        _gpt2("gpt2", 12, 768, 12, 64, "GPT-2 small, sequence 1024"),
        _gpt2("gpt2-medium", 24, 1024, 16, 64, "GPT-2 medium, sequence 1024"),
        TransformerConfig(
            name="llama-1b", help="the shape of Llama 3.2 1B, sequence 2048",
            form=Form.DECODER, layers=16, width=2048, heads=32, kv_heads=8, hidden=8192,
            vocabulary=128256, sequence=2048, llama=True, global_batch=64,
        ),
    )
}  # fmt: skip


def preset(name: str) -> TransformerConfig:
    """The built-in workload called `name`. Raises FieldError with the names there are."""
    if name not in PRESETS:
        raise FieldError("workload", name, "is not known", alternatives=PRESETS)
    return PRESETS[name]
