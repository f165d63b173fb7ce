"""A loop in torchtitan's manner: fully_shard, a global batch, options with dots, no DataLoader.

torchrun --standalone --nproc-per-node 2 train.py --training.local_batch_size 8
autotune run --instance local --global-batch 32 -- train.py --training.steps 100000 \
    --training.global_batch_size {global_batch} --training.local_batch_size {micro_batch}
"""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Decoder(nn.Module):
    """A small language model."""

    def __init__(self, vocabulary: int = 128, width: int = 64, layers: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
            for _ in range(layers)
        )
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding(tokens)
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], tokens.device)
        for layer in self.layers:
            hidden = layer(hidden, src_mask=mask, is_causal=True)
        return self.head(hidden)


class Trainer:
    """Model, optimizer and the loop."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        kind = "cuda" if torch.cuda.is_available() else "cpu"
        self.device = torch.device(kind, dist.get_rank()) if kind == "cuda" else torch.device(kind)
        torch.manual_seed(0)
        self.model = Decoder().to(self.device)
        mesh = init_device_mesh(kind, (dist.get_world_size(),))
        reshard = arguments.reshard != "never"
        for layer in self.model.layers:
            fully_shard(layer, mesh=mesh, reshard_after_forward=reshard)
        fully_shard(self.model, mesh=mesh, reshard_after_forward=reshard)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.generator = torch.Generator().manual_seed(dist.get_rank())
        per_step = arguments.local_batch_size * dist.get_world_size()
        self.accumulation, rest = divmod(arguments.global_batch_size, per_step)
        if rest or not self.accumulation:
            raise ValueError(f"global batch {arguments.global_batch_size} isn't made of {per_step}")

    def train_step(self) -> torch.Tensor:
        self.optimizer.zero_grad()
        total = torch.zeros((), device=self.device)
        for index in range(self.accumulation):
            is_last = index == self.accumulation - 1
            self.model.set_requires_gradient_sync(is_last)
            shape = (self.arguments.local_batch_size, 33)
            tokens = torch.randint(128, shape, generator=self.generator).to(self.device)
            logits = self.model(tokens[:, :-1]).flatten(0, 1)
            loss = nn.functional.cross_entropy(logits, tokens[:, 1:].flatten()) / self.accumulation
            loss.backward()
            total += loss.detach()
        self.optimizer.step()
        return total

    def train(self) -> None:
        for step in range(self.arguments.steps):
            loss = self.train_step()
            if step % 500 == 0 and dist.get_rank() == 0:
                print(f"step {step}: loss {loss.item():.4f}", flush=True)


def main() -> None:
    """Train, by the options of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--training.local_batch_size", dest="local_batch_size", type=int, default=8)
    parser.add_argument(
        "--training.global_batch_size", dest="global_batch_size", type=int, default=32
    )
    parser.add_argument("--training.steps", dest="steps", type=int, default=200)
    parser.add_argument(
        "--parallelism.fsdp_reshard_after_forward", dest="reshard", default="always",
        choices=["always", "never"],
    )  # fmt: skip
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    Trainer(parser.parse_args()).train()
    dist.barrier()  # a thread of Gloo's that still waits for the interpreter would abort its end
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
