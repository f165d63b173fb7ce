"""Where a saved configuration is taken or refused, and what can't be in one."""

import logging
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import autotune
from autotune.apply import environment as applying
from autotune.apply import misfits
from autotune.cli.near import Wanted, near_misses
from autotune.errors import UserError
from autotune.exporters import from_yaml, to_yaml
from autotune.exporters.difference import differences
from autotune.exporters.fingerprint import changes, misfit, other_model
from autotune.loop.fingerprint import fingerprint
from autotune.model import GIB, BestConfiguration, Candidate, Gpu, Machine, Target
from autotune.space.catalogue import load_knobs
from autotune.space.facts import Facts, Links
from autotune.space.instances import load_instances, machine_of
from autotune.space.knob import Searched
from autotune.space.nccl import Network
from autotune.space.space import Space
from autotune.trainers.layers import find_blocks
from tests.bests import best_here, best_on_p4d
from tests.fakes import measurement

A100 = Gpu(name="NVIDIA A100-SXM4-40GB", memory_bytes=40 * GIB)
H100 = Gpu(name="NVIDIA H100 80GB HBM3", memory_bytes=80 * GIB)
P4D = Machine(
    instance="local-8x-nvidia-a100-sxm4-40gb", gpus=(A100,) * 8, cpu="x", cores=96, numa_nodes=2,
    memory_bytes=1152 * GIB, versions={"driver": "580.1", "nccl": "2.29.7", "torch": "2.13.0"},
)  # fmt: skip
LINKS = Links(nvlink=True, nvswitch=True, network=Network.EFA, nics=4)


def test_the_machine_decides() -> None:
    best = best_on_p4d()
    assert misfit(best, P4D) == ""
    assert misfit(best, replace(P4D, instance="p4d.24xlarge")) == ""
    assert "it has 4 visible GPUs, not 8" in misfit(best, replace(P4D, gpus=(A100,) * 4))
    assert "this machine has NVIDIA H100" in misfit(best, replace(P4D, gpus=(H100,) * 8))
    assert "no GPU is visible here" in misfit(best, replace(P4D, gpus=()))
    own = replace(best, target=replace(best.target, instance="our-box"))
    assert misfit(own, P4D) == ""
    local = replace(best, target=replace(best.target, instance="local-8x-other"))
    assert "measured on local-8x-other, and this is local-8x-nvidia" in misfit(local, P4D)


def test_versions_and_topology_are_compared() -> None:
    best = best_on_p4d()
    assert changes(best, P4D, LINKS, {"cuda": "13.0"}) == []
    other = replace(P4D, cores=48, versions={**P4D.versions, "nccl": "2.31.0"})
    found = changes(best, other, replace(LINKS, nics=1, nvswitch=False), {"cuda": "13.1"})
    assert found == [
        "cuda was 13.0 and is 13.1", "nccl was 2.29.7 and is 2.31.0", "cores: 96 then, 48 now",
        "links between GPUs: nvswitch then, nvlink now", "network cards: 4 then, 1 now",
    ]  # fmt: skip
    assert other_model(best, 124_475_904) == ""
    assert "this one has 5" in other_model(best, 5)


def saved(best: BestConfiguration, folder: Path) -> Path:
    path = folder / "best.yaml"
    path.write_text(to_yaml(best), encoding="utf-8")
    return path


def test_load_refuses_other_machines_and_what_is_unconfirmed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = saved(best_on_p4d(conclusion="unconfirmed"), tmp_path)
    with pytest.raises(UserError) as caught:
        autotune.load(path)
    assert "no GPU is visible here; it is unconfirmed" in str(caught.value)
    assert "force=True" in caught.value.hint
    with caplog.at_level(logging.WARNING, logger="autotune"):
        config = autotune.load(path, force=True)
    assert (config.micro_batch, config.accumulation_steps) == (8, 2)
    forced = [record.message for record in caplog.records if record.message.startswith("forced: ")]
    assert len(forced) == 2


def test_load_warns_of_other_versions_once_a_node(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(best_here(versions={"torch": "1.0"}), tmp_path)
    autotune.load(path)
    assert f"torch was 1.0 and is {torch.__version__}" in caplog.text
    caplog.clear()
    monkeypatch.setenv("LOCAL_RANK", "1")
    autotune.load(path)
    assert caplog.text == ""


def test_a_rank_that_is_shown_one_gpu_is_on_the_machine_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def describe(*, environment: dict[str, str] | None = None) -> Machine:
        return P4D if environment == {} else replace(P4D, gpus=(A100,))

    monkeypatch.setattr(misfits, "describe_machine", describe)
    misfits.refuse(best_on_p4d(), "x", force=False)


def test_variables_are_set_before_they_are_read(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("NCCL_BUFFSIZE", "1")
    monkeypatch.delenv("NCCL_MIN_CTAS", raising=False)
    best = best_here(environment={"NCCL_BUFFSIZE": "8388608", "NCCL_MIN_CTAS": "8"})
    config = autotune.Configuration(best=best)
    monkeypatch.setattr(applying, "_too_late", lambda: "CUDA is initialized")
    with pytest.raises(UserError, match="too late, CUDA is initialized: NCCL_BUFFSIZE, NCCL_MIN"):
        config.apply_env()
    assert os.environ["NCCL_BUFFSIZE"] == "1"
    monkeypatch.setattr(applying, "_too_late", lambda: "")
    config.apply_env()
    assert os.environ["NCCL_BUFFSIZE"] == "8388608"
    assert "NCCL_BUFFSIZE=1 in the environment: replaced by 8388608" in caplog.text
    # What is there already is never too late.
    monkeypatch.setattr(applying, "_too_late", lambda: "CUDA is initialized")
    config.apply_env()


def test_ranks_of_torchrun_get_the_threads_that_trials_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", given.append)
    monkeypatch.setattr(applying, "usable_cores", lambda _: 16)
    for name, value in {"OMP_NUM_THREADS": "1", "LOCAL_WORLD_SIZE": "4"}.items():
        monkeypatch.setenv(name, value)
    config = autotune.Configuration(best=best_here())
    config.apply_env()
    assert given == []
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    config.apply_env()
    assert given == [4]
    autotune.Configuration(best=best_here(environment={"OMP_NUM_THREADS": "3"})).apply_env()
    assert given == [4, 3]


def test_parallelize_needs_a_process_group() -> None:
    with pytest.raises(UserError, match="no process group yet"):
        autotune.Configuration(best=best_here()).parallelize(nn.Linear(2, 2))


class EncoderAndDecoder(nn.Module):
    """Of one class, as T5's are: they aren't what is repeated."""

    def __init__(self) -> None:
        super().__init__()
        block = nn.TransformerEncoderLayer(8, 2, 16)
        self.encoder = nn.TransformerEncoder(block, 3, enable_nested_tensor=False)
        self.decoder = nn.TransformerEncoder(block, 3, enable_nested_tensor=False)
        self.heads = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))


def test_blocks_are_the_repeated_modules() -> None:
    found = [type(block).__name__ for block in find_blocks(EncoderAndDecoder())]
    assert found == ["TransformerEncoderLayer"] * 6
    assert find_blocks(nn.Linear(2, 2)) == []


def test_importing_autotune_is_light() -> None:
    program = (
        "import sys, autotune; assert 'torch' not in sys.modules; import torch;"
        "before = set(sys.modules); autotune.load; dir(autotune);"
        "print([n for n in ('optuna', 'sqlalchemy', 'alembic', 'ray', 'pydantic', 'typer', 'rich',"
        " 'scipy') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "[]"
    assert all(getattr(autotune, name) is not None for name in autotune.__all__)


IMPOSSIBLE: list[tuple[dict[str, Any], dict[str, str], str, str]] = [
    ({}, {"NCCL_NCHANNELS": "8"}, "NCCL_NCHANNELS", "has no effect"),
    ({}, {"NCCL_BUFFSIZE": "many"}, "NCCL_BUFFSIZE", "can't be"),
    ({"strategy": "fsdp_full", "reshard_after_forward": True}, {"NCCL_ALGO": "tree"}, "NCCL_ALGO",
     "strategy fsdp_full"),
    ({"strategy": "fsdp_full", "reshard_after_forward": True, "blocks_per_group": 50}, {},
     "blocks_per_group", "can't be here"),
    ({"strategy": "fsdp_full", "reshard_after_forward": True, "accumulation_steps": 1,
      "micro_batch": 16, "reshard_after_backward": False}, {}, "reshard_after_backward",
     "accumulation_steps"),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "environment", "field", "words"), IMPOSSIBLE)
def test_an_edited_file_is_held_to_the_rules_of_searches(
    settings: dict[str, Any], environment: dict[str, str], field: str, words: str
) -> None:
    text = to_yaml(best_on_p4d(settings, environment=environment))
    line = next(i for i, one in enumerate(text.splitlines(), 1) if field in one)
    with pytest.raises(UserError) as caught:
        from_yaml(text, "best.yaml")
    assert str(caught.value).startswith(f"best.yaml:{line}: settings.")
    assert words in str(caught.value)


def test_whatever_a_search_proposes_can_be_read_back() -> None:
    """Also with values taken back to their defaults, as those are that did nothing."""
    rng = random.Random(1)
    knobs = load_knobs([])
    for name in ("p3.16xlarge", "p4d.24xlarge", "p5.48xlarge", "g5.12xlarge"):
        entry = load_instances([])[name]
        for nccl in ("2.21.5", "2.29.7"):
            versions = {"torch": "2.13.0", "nccl": nccl, "gpu": f"NVIDIA {entry.gpu}"}
            target = Target(
                instance=name, nodes=2, ranks_per_node=entry.gpus, workload="gpt2",
                global_batch=128 * entry.gpus,
            )  # fmt: skip
            facts = Facts.of(machine_of(entry, versions), target, instance=entry)
            space = Space(knobs, facts, searched=Searched.FULL, allow_lossy=True)
            seen = replace(measurement([], {"compute_dtype": "float32"}), versions=versions)
            for _ in range(8):
                check_read_back(some(space, rng), space, target, fingerprint(facts, "gpt2", seen))


def some(space: Space, rng: random.Random) -> Candidate:
    candidate, plain = space.build(lambda question: rng.choice(question.values)), space.baseline()
    layout = ("strategy", "reshard_after_forward", "shard_size", "accumulation_steps")
    taken = {name for name in candidate if name in plain and rng.random() < 0.3} - {*layout}
    return Candidate({n: plain[n] if n in taken else value for n, value in candidate.items()})


def check_read_back(candidate: Candidate, space: Space, target: Target, print_: Any) -> None:
    settings, plain = space.settings(candidate), best_on_p4d()
    best = replace(
        plain, target=target, settings=settings, environment=space.environment(candidate),
        versions={"torch": space.facts.torch, "nccl": space.facts.nccl},
        evidence=replace(plain.evidence, fingerprint=print_),
    )  # fmt: skip
    assert from_yaml(to_yaml(best), "x").settings == settings


def test_differences_are_named_as_in_the_document() -> None:
    one = best_on_p4d({"bucket_cap_mb": 50})
    other = best_on_p4d({"static_graph": True}, environment={"NCCL_BUFFSIZE": "8388608"})
    assert differences(one, other) == {
        "settings.parallelism.bucket_cap_mb": ("50", None),
        "settings.environment.NCCL_BUFFSIZE": (None, "8388608"),
        "settings.parallelism.static_graph": (None, "true"),
    }
    assert differences(one, one) == {}


def test_near_misses_say_why_they_are_not_used() -> None:
    here = best_here()
    wanted = Wanted(
        instance=here.target.instance, workload="gpt2", ranks_per_node=None, global_batch=None
    )
    far = replace(best_on_p4d(), target=replace(best_on_p4d().target, workload="tiny"))
    lines = near_misses(wanted, [far, best_on_p4d(), here]).splitlines()
    assert lines[0] == "nearest:"
    assert "not used, since it was for the workload tiny" in lines[1]
    assert "not used, since it was measured on p4d.24xlarge" in lines[2]
    assert "measured on p4d.24xlarge, for the workload tiny" in lines[3]
    assert near_misses(wanted, []) == "the store has no answer yet"
