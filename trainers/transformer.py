"""A plain PyTorch transformer, of either form, as TransformerConfig describes it."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autotune.model import Form, TransformerConfig

INITIAL_STD = 0.02
"""Of every weight matrix, as in GPT-2 and BERT."""
ROTARY_BASE = 500_000.0
"""Llama 3's."""


class Attention(nn.Module):
    """Multi-head attention; grouped-query when there are fewer key than query heads."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.kv_heads = config.kv_heads or config.heads
        self.causal = config.form is Form.DECODER
        self.head_width = config.width // config.heads
        kv_width = self.head_width * self.kv_heads
        bias = not config.llama
        self.query = nn.Linear(config.width, config.width, bias=bias)
        self.key = nn.Linear(config.width, kv_width, bias=bias)
        self.value = nn.Linear(config.width, kv_width, bias=bias)
        self.output = nn.Linear(config.width, config.width, bias=bias)

    def forward(self, x: Tensor, rotation: Tensor | None) -> Tensor:
        q = self._split(self.query(x), self.heads)
        k = self._split(self.key(x), self.kv_heads)
        v = self._split(self.value(x), self.kv_heads)
        if rotation is not None:
            q, k = rotate(q, rotation), rotate(k, rotation)
        grouped = self.kv_heads != self.heads
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, enable_gqa=grouped)
        result: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return result

    def _split(self, x: Tensor, heads: int) -> Tensor:
        return x.view(*x.shape[:2], heads, self.head_width).transpose(1, 2)


class GeluMlp(nn.Module):
    """Two linear layers around a GELU."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.up = nn.Linear(config.width, config.hidden)
        self.down = nn.Linear(config.hidden, config.width)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.down(F.gelu(self.up(x)))
        return result


class SwigluMlp(nn.Module):
    """Llama's gated MLP."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.gate = nn.Linear(config.width, config.hidden, bias=False)
        self.up = nn.Linear(config.width, config.hidden, bias=False)
        self.down = nn.Linear(config.hidden, config.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.down(F.silu(self.gate(x)) * self.up(x))
        return result


class Block(nn.Module):
    """Attention and MLP, each behind its norm and added to the stream."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention_norm = _norm(config)
        self.attention = Attention(config)
        self.mlp_norm = _norm(config)
        self.mlp = SwigluMlp(config) if config.llama else GeluMlp(config)

    def forward(self, x: Tensor, rotation: Tensor | None) -> Tensor:
        x = x + self.attention(self.attention_norm(x), rotation)
        result: Tensor = x + self.mlp(self.mlp_norm(x))
        return result


class Transformer(nn.Module):
    """Token ids in, logits out; the output layer is the embedding itself."""

    rotation: Tensor | None

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.width)
        self.positions = None if config.llama else nn.Embedding(config.sequence, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = _norm(config)
        rotation = rotary_table(config) if config.llama else None
        self.register_buffer("rotation", rotation, persistent=False)

    @torch.no_grad()
    def initialise(self) -> None:
        """Give every parameter and buffer its first value, whatever it holds."""
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=INITIAL_STD)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
            if isinstance(module, nn.LayerNorm | nn.RMSNorm):
                module.reset_parameters()
        if self.rotation is not None:
            self.rotation.copy_(rotary_table(self.config))

    def forward(self, tokens: Tensor, chosen: Tensor | None = None) -> Tensor:
        """Logits at every position, or at the positions `chosen`[sample, i] of each sample."""
        x = self.embedding(tokens)
        if self.positions is not None:
            x = x + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x, self.rotation)
        x = self.norm(x)
        if chosen is not None:
            x = x.gather(1, chosen.unsqueeze(2).expand(-1, -1, x.shape[2]))
        return F.linear(x, self.embedding.weight)


def transformer_on(device: torch.device, config: TransformerConfig) -> Transformer:
    """A transformer that is made where it runs, its weights drawn from the device's generator.

    First without memory, so that each weight is written once and not by PyTorch's layers as well;
    on a CPU, where a billion random numbers take half a minute, that is what building costs.
    """
    with torch.device("meta"):
        model = Transformer(config)
    model.to_empty(device=device)
    model.initialise()
    return model


def rotary_table(config: TransformerConfig) -> Tensor:
    """Cosines and sines, [2, sequence, head width / 2], of the rotary position embedding."""
    half = config.width // config.heads // 2
    frequencies = ROTARY_BASE ** (-torch.arange(half, dtype=torch.float32) / half)
    angles = torch.outer(torch.arange(config.sequence, dtype=torch.float32), frequencies)
    return torch.stack((angles.cos(), angles.sin()))


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Turn each pair (x[i], x[i + half]) of a head's elements by its position's angle."""
    cos, sin = rotation[:, : x.shape[2]].to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def _norm(config: TransformerConfig) -> nn.Module:
    kind: Callable[[int], nn.Module] = nn.RMSNorm if config.llama else nn.LayerNorm
    return kind(config.width)
