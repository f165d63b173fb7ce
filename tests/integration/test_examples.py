"""The examples: each is tuned as it is, and what is exported runs in its own launcher."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

import pytest
import yaml

from autotune.executors.base import Launch
from autotune.executors.local import LocalExecutor
from autotune.exporters import exporter, to_yaml
from autotune.model import (
    BestConfiguration,
    DeviceKind,
    KnobValue,
    Measurement,
    MeasurementPlan,
    Outcome,
    Samples,
    TrialSpec,
)
from autotune.model.protocol import Verdict
from autotune.user_script import read_script
from tests.bests import best_here

EXAMPLES = Path(__file__).parents[2] / "examples"
TORCHRUN = [
    sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
]  # fmt: skip
OWN = "--steps 100000 --micro-batch {micro_batch} --accumulate {accumulation_steps}"
TITAN = (
    "--training.steps 100000 --training.global_batch_size {global_batch} "
    "--training.local_batch_size {micro_batch}"
)
TRAINER = (
    "--max_steps 100000 --per_device_train_batch_size {micro_batch} "
    "--gradient_accumulation_steps {accumulation_steps}"
)


@dataclass(frozen=True, kw_only=True)
class Example:
    """An example, and what is seen of it in a trial."""

    name: str
    arguments: str
    losses: str = "seen"
    strategy: str = "ddp"
    is_counted: bool = True


ALL = [
    Example(name="ddp", arguments=OWN),
    Example(name="fsdp2", arguments="--steps 100000", losses="told"),
    Example(name="titan", arguments=TITAN, strategy="fsdp_full", is_counted=False),
    Example(name="accelerate", arguments=OWN),
    Example(name="trainer", arguments=TRAINER),
    Example(name="lightning", arguments=OWN),
]
BY_NAME = {example.name: example for example in ALL}


HEAVY = [pytest.param(name, marks=pytest.mark.long) for name in ("trainer", "lightning")]
"""Importing these libraries takes a minute on a busy machine."""


@pytest.fixture(scope="module")
def executor() -> Iterator[LocalExecutor]:
    with LocalExecutor() as executor:
        yield executor


def best_of(example: Example, monkeypatch: pytest.MonkeyPatch) -> BestConfiguration:
    monkeypatch.chdir(EXAMPLES / example.name)
    workload = read_script(["train.py", *example.arguments.split()], None)
    assert workload.script is not None
    script = replace(workload.script, samples=Samples.COUNTED)
    best = best_here()
    return replace(best, evidence=replace(best.evidence, script=script))


def in_trial(executor: LocalExecutor, best: BestConfiguration, folder: Path) -> Measurement:
    script = best.evidence.script
    assert script is not None
    spec = TrialSpec(
        trial_id="t", workload="train.py", script=script, settings=best.settings,
        device=DeviceKind.CPU,
        plan=MeasurementPlan(max_warmup_steps=6, windows=2, window_s=0.05),
    )  # fmt: skip
    launch = Launch(
        spec=spec, nodes=1, ranks_per_node=2, directory=folder / "trial", time_limit_s=200
    )
    with pytest.MonkeyPatch.context() as patch:
        # It changes from test to test, and another environment is another warm parent.
        patch.delenv("PYTEST_CURRENT_TEST")
        end = executor.run(launch, lambda _: Verdict.GO, Event())
    assert end.outcome is Outcome.COMPLETED, (end.reason, end.log_tail)
    assert isinstance(end.measurement, Measurement)
    return end.measurement


@pytest.mark.parametrize("name", ["ddp", "fsdp2", "titan", "accelerate", *HEAVY])
def test_an_example_runs_as_a_trial(
    name: str, executor: LocalExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = BY_NAME[name]
    best = best_of(example, monkeypatch)
    measured = in_trial(executor, best, tmp_path)
    seen = measured.effective
    assert (seen["strategy"], seen["loss_source"]) == (example.strategy, example.losses)
    if example.is_counted:
        assert (seen["micro_batch"], seen["accumulation_steps"]) == (4, 2)
        assert seen["samples_read"] == 16
    assert all(window.samples == 16 * window.steps for window in measured.windows)
    assert len(measured.losses) >= 4


def said(output: str) -> dict[str, str]:
    """What an example prints of itself when it starts."""
    (line,) = [one for one in output.splitlines() if one.startswith("strategy=")]
    return dict(re.findall(r"(\w+)=(\S+)", line))


def run(command: list[str], folder: Path, **variables: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True,
        timeout=250, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def launched(name: str, best: BestConfiguration, folder: Path) -> dict[str, str]:
    """What the example says when its own launcher starts it with what was exported."""
    place = EXAMPLES / name
    if name == "ddp":
        text = exporter("torchrun").export(best)
        (folder / "launch.sh").write_text(text)
        return said(
            run(["sh", str(folder / "launch.sh"), *measured_with(text)], place, PATH=path())
        )
    if name == "fsdp2":
        (folder / "best.yaml").write_text(to_yaml(best))
        config = {"AUTOTUNE_CONFIG": str(folder / "best.yaml")}
        return said(run([*TORCHRUN, "train.py", "--steps", "4"], place, **config))
    if name == "accelerate":
        text = exporter("accelerate").export(best)
        (folder / "accelerate.yaml").write_text(text)
        launcher = [sys.executable, "-m", "accelerate.commands.launch"]
        options = ["--config_file", str(folder / "accelerate.yaml")]
        command = [*launcher, *options, *measured_with(text)]
        return said(run(command, place, ACCELERATE_USE_CPU="true"))
    if name == "trainer":
        (folder / "best.json").write_text(exporter("hf").export(best))
        return said(run([*TORCHRUN, "train.py", str(folder / "best.json")], place))
    (folder / "best_lightning.py").write_text(exporter("lightning").export(best))
    config = ["--config", str(folder / "best_lightning.py"), "--steps", "4"]
    return said(run([*TORCHRUN, "train.py", *config], place))


def measured_with(text: str) -> list[str]:
    """The command that an export names, for fewer steps."""
    (words,) = re.findall(r"# Measured with: (.*)", text)
    return shlex.split(words.replace("100000", "4"))


def path() -> str:
    return f"{Path(sys.executable).parent}:{os.environ['PATH']}"


@pytest.mark.parametrize("name", ["ddp", "fsdp2", "accelerate", *HEAVY])
def test_what_is_exported_runs_in_the_examples_own_launcher(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    best = best_of(BY_NAME[name], monkeypatch)
    seen = launched(name, best, tmp_path)
    asked: dict[str, KnobValue] = {"micro_batch": 4, "accumulation_steps": 2, "ranks": 2}
    assert {key: int(seen[key]) for key in asked} == asked
    assert re.search("ddp|distributed", seen["strategy"], re.IGNORECASE)


@pytest.mark.long
@pytest.mark.parametrize("name", BY_NAME)
def test_an_example_is_tuned_by_one_command(name: str, tmp_path: Path) -> None:
    example = BY_NAME[name]
    output = tmp_path / "best.yaml"
    command = [
        sys.executable, "-m", "autotune", "run", "--instance", "local", "--nproc", "2",
        "--global-batch", "16", "--window", "0.05s", "--trials", "3", "--output", str(output),
        "--strategy", "grid", "--", "train.py", *example.arguments.split(),
    ]  # fmt: skip
    run(command, EXAMPLES / name, AUTOTUNE_HOME=str(tmp_path / "home"))
    best = yaml.safe_load(output.read_text())
    assert best["for"]["global_batch"] == 16
    assert best["script"]["samples"] == ("counted" if example.is_counted else "given")
    assert best["evidence"]["baseline"]["launches"] >= 3
