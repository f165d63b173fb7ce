"""What a rank makes sure of before it offers to run another trial."""

import re
import subprocess
import sys
import weakref
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from autotune.model import DeviceKind, ShardingStrategy, TrainingSettings, TrialSpec
from autotune.trainers import live
from autotune.trainers.uptake import rank_readback


def spec(settings: TrainingSettings) -> TrialSpec:
    return TrialSpec(trial_id="t", workload="tiny", settings=settings, device=DeviceKind.CPU)


HYBRID = TrainingSettings(
    strategy=ShardingStrategy.HYBRID, shard_size=1, reshard_after_forward=True, micro_batch=1
)


@pytest.mark.parametrize(
    ("settings", "stays"),
    [
        (TrainingSettings(micro_batch=1), True),
        (TrainingSettings(micro_batch=1, compile=True), False),
        (HYBRID, False),
    ],
    ids=["ddp", "compiled", "hybrid"],
)
def test_a_process_stays_if_asked_and_nothing_of_the_trial_lasts(
    monkeypatch: pytest.MonkeyPatch, settings: TrainingSettings, stays: bool
) -> None:
    monkeypatch.delenv(live.VARIABLE, raising=False)
    assert not live.may_stay(spec(settings))
    monkeypatch.setenv(live.VARIABLE, "1")
    assert live.may_stay(spec(settings)) is stays


def test_a_model_that_somebody_holds_is_found() -> None:
    model = nn.Linear(2, 2)
    model.itself = [model]  # a cycle, which only the collector frees
    seen = weakref.ref(model)
    assert live.what_is_left(seen, torch.device("cpu")) == "something still holds the model"
    del model
    assert live.what_is_left(seen, torch.device("cpu")) == ""


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a device that fails")
def test_what_fails_afterwards_fails_no_trial() -> None:
    seen = weakref.ref(nn.Linear(2, 2))
    assert re.match(r"\w+Error: ", live.what_is_left(seen, torch.device("cuda", 0)))


def test_output_goes_to_the_new_log(tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from autotune.trainers.live import open_log\n"
        "print('one')\n"
        f"open_log(Path({str(tmp_path / 'log')!r}))\n"
        "print('two', flush=True)\n"
        "os.system('echo three >&2')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("one\n", "")
    assert (tmp_path / "log").read_text() == "two\nthree\n"


def test_choices_of_nccl_are_those_of_the_trial(tmp_path: Path) -> None:
    text = (Path(__file__).parents[1] / "fixtures" / "nccl" / "2.27-efa.log").read_text()
    later = "AllReduce: 4096 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..3}"
    log = tmp_path / "nccl.log"
    log.write_text(text + f"ip-10-1-0-9:51:51 [0] NCCL INFO {later}\n")
    whole = rank_readback(log, 0)
    own = rank_readback(log, len(text.encode()))
    assert [choice.size_bytes for choice in own.choices] == [4096]
    assert set(own.choices) < set(whole.choices)
    assert replace(own, choices=whole.choices) == whole, "all else holds for the process"
