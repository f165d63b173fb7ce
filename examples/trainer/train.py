"""The Trainer of transformers, on a small GPT-2 of its own.

torchrun --standalone --nproc-per-node 2 train.py --per_device_train_batch_size 4
torchrun --standalone --nproc-per-node 2 train.py best.json   # what autotune export --to hf gives
autotune run --instance local --global-batch 16 -- train.py --max_steps 100000 \
    --per_device_train_batch_size {micro_batch} --gradient_accumulation_steps {accumulation_steps}
"""

import json
import sys
import tempfile
from pathlib import Path

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, HfArgumentParser, Trainer, TrainingArguments

DEFAULTS = {
    "output_dir": str(Path(tempfile.gettempdir()) / "trainer"),
    "max_steps": 50,
    "use_cpu": not torch.cuda.is_available(),
    "report_to": "none",
    "save_strategy": "no",
    "disable_tqdm": True,
}


class Bytes(Dataset):
    """Made-up text."""

    def __init__(self) -> None:
        self.tokens = torch.randint(128, (2048, 32), generator=torch.Generator().manual_seed(1))

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.tokens[index], "labels": self.tokens[index]}


def main() -> None:
    """Train, by the options of the command line."""
    parser = HfArgumentParser(TrainingArguments)
    parser.set_defaults(**DEFAULTS)
    if len(sys.argv) == 2 and sys.argv[1].endswith(".json"):
        (arguments,) = parser.parse_dict({**DEFAULTS, **json.loads(Path(sys.argv[1]).read_text())})
    else:
        (arguments,) = parser.parse_args_into_dataclasses()
    torch.manual_seed(0)
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=128, n_positions=32, n_embd=64, n_layer=2, n_head=2,
                   resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    )  # fmt: skip
    trainer = Trainer(model=model, args=arguments, train_dataset=Bytes())
    if arguments.process_index == 0:
        print(
            f"strategy={arguments.parallel_mode.value} ranks={arguments.world_size} "
            f"micro_batch={arguments.per_device_train_batch_size} "
            f"accumulation_steps={arguments.gradient_accumulation_steps}",
            flush=True,
        )
    trainer.train()


if __name__ == "__main__":
    main()
