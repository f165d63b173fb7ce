"""Which format a trial computes in when nobody asked for one."""

import pytest
import torch

from autotune.model import Dtype, TrainingSettings
from autotune.trainers.precision import compute_dtype


@pytest.mark.parametrize(
    ("capability", "expected"),
    [((7, 0), torch.float32), ((7, 5), torch.float32), ((8, 0), torch.bfloat16),
     ((8, 6), torch.bfloat16), ((12, 0), torch.bfloat16)],
)  # fmt: skip
def test_gpus_compute_in_bfloat16_if_they_have_it(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], expected: torch.dtype
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    settings = TrainingSettings(micro_batch=1)
    assert compute_dtype(settings, torch.device("cuda", 0)) is expected
    asked = TrainingSettings(micro_batch=1, compute_dtype=Dtype.FLOAT32)
    assert compute_dtype(asked, torch.device("cuda", 0)) is torch.float32


def test_cpus_compute_in_float32() -> None:
    settings = TrainingSettings(micro_batch=1)
    assert compute_dtype(settings, torch.device("cpu")) is torch.float32
