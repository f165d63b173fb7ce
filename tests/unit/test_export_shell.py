"""The shell exports, used as a person uses them: sourced and run."""

import dataclasses
import json
import os
import re
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from autotune.errors import FieldError
from autotune.exporters import EXPORTERS, exporter
from autotune.model import (
    BestConfiguration,
    Conclusion,
    DeviceKind,
    Evidence,
    Reading,
    ShardingStrategy,
    Target,
    TrainingSettings,
    decode,
    encode,
)

NASTY = {
    "SPACES": "  two  words ",
    "QUOTES": """it's "both" ''""",
    "DOLLAR": "$HOME ${PATH} $(touch hacked) $((1+1))",
    "BACKTICK": "`touch hacked`",
    "BACKSLASH": "\\n\\ \\'",
    "GLOB": "* ? [a-z] ~ ! # ; & | < >",
    "UNICODE": "é 漢 🚀\u2028\u200b",
    "EMPTY": "",
    "TAB": "a\tb",
    "EQUALS": "a=b=c",
    "DASH": "-n",
}


def configuration(**changes: object) -> BestConfiguration:
    reading = Reading(samples_per_second=100.0, spread_percent=2.0, launches=5, stability=1.0)
    best = BestConfiguration(
        target=Target(
            instance="local", nodes=1, ranks_per_node=2, workload="tiny", global_batch=16
        ),
        conclusion=Conclusion.IMPROVED,
        settings=TrainingSettings(micro_batch=4, accumulation_steps=2, bucket_cap_mb=50),
        environment=NASTY,
        evidence=Evidence(
            baseline=reading, winner=reading, ratio=None, device=DeviceKind.CPU, trials=9, reason=""
        ),
        versions={"torch": "2.13.0"},
        run_id="r1",
        created_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    )
    return decode(BestConfiguration, encode(best) | {k: encode(v) for k, v in changes.items()})


OWN = {
    "AUTOTUNE_STRATEGY": "ddp",
    "AUTOTUNE_MICRO_BATCH": "4",
    "AUTOTUNE_ACCUMULATION_STEPS": "2",
    "AUTOTUNE_BUCKET_CAP_MB": "50",
    "AUTOTUNE_ACTIVATION_CHECKPOINTING": "none",
}
PRINT_ENVIRONMENT = "import json, os; print(json.dumps(dict(os.environ)))"


def run(command: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    path = f"{sysconfig.get_path('scripts')}:/usr/bin:/bin"
    return subprocess.run(
        command, cwd=folder, env={"PATH": path, "PYTHONUTF8": "1"} | environment,
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def sourced(shell: str, text: str, folder: Path, **environment: str) -> dict[str, str]:
    (folder / "best.env").write_text(text)
    script = '. ./best.env && exec "$0" -c "$1"'
    done = run([shell, "-euc", script, sys.executable, PRINT_ENVIRONMENT], folder, **environment)
    assert done.stderr == ""
    assert done.returncode == 0
    assert not (folder / "hacked").exists()
    result: dict[str, str] = json.loads(done.stdout)
    return result


def is_part(part: Mapping[str, str], whole: Mapping[str, str]) -> bool:
    return {name: whole.get(name) for name in part} == dict(part)


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_env_gives_every_value_unchanged(shell: str, tmp_path: Path) -> None:
    seen = sourced(shell, exporter("env").export(configuration()), tmp_path)
    assert is_part(NASTY | OWN, seen)


def test_env_takes_away_what_an_earlier_file_set(tmp_path: Path) -> None:
    text = exporter("env").export(configuration())
    seen = sourced("sh", text, tmp_path, AUTOTUNE_SHARD_SIZE="2", AUTOTUNE_STRATEGY="hybrid")
    assert "AUTOTUNE_SHARD_SIZE" not in seen
    assert seen["AUTOTUNE_STRATEGY"] == "ddp"


@pytest.mark.parametrize("form", sorted({*EXPORTERS} - {"nccl-conf", "nccl-tuner", "sagemaker"}))
def test_a_line_break_in_a_name_cannot_end_a_comment(form: str, tmp_path: Path) -> None:
    best = configuration()
    target = dataclasses.replace(
        best.target, workload="x\ntouch hacked\r\u2028\x85$(touch hacked)\x1b"
    )
    text = exporter(form).export(
        configuration(target=target, run_id="r\ntouch hacked", environment={})
    )
    assert text.replace("\n", "").isprintable()
    (tmp_path / "file").write_text(text)
    run(["sh", "file", "--version"], tmp_path)
    assert not (tmp_path / "hacked").exists()


@pytest.mark.parametrize(
    "environment",
    [
        {"A B": "x"},
        {"1A": "x"},
        {"": "x"},
        {"A\n": "x"},
        {"É": "x"},
        {"A": "x\ny"},
        {"A": "x\0y"},
        {"A": "\udc80"},
        {"A": "\x01"},
        {"A": "\x7f"},
        {"A": "\x9f"},
        {"AUTOTUNE_STRATEGY": "ddp"},
    ],
)
@pytest.mark.parametrize("form", EXPORTERS)
def test_what_no_environment_can_hold_is_refused(form: str, environment: dict[str, str]) -> None:
    with pytest.raises(FieldError, match="environment"):
        exporter(form).export(configuration(environment=environment))


def test_reshard_after_forward_is_written_in_lower_case() -> None:
    settings = TrainingSettings(
        strategy=ShardingStrategy.FSDP_GRAD_OP, micro_batch=8, reshard_after_forward=False
    )
    text = exporter("env").export(configuration(settings=settings))
    assert "export AUTOTUNE_RESHARD_AFTER_FORWARD=false\n" in text
    (unset,) = [line.split()[1:] for line in text.splitlines() if line.startswith("unset ")]
    assert set(unset) >= {"AUTOTUNE_SHARD_SIZE", "AUTOTUNE_BUCKET_CAP_MB"}


LAYOUTS = {
    ShardingStrategy.DDP: {"bucket_cap_mb": 50},
    ShardingStrategy.FSDP_FULL: {"reshard_after_forward": True},
    ShardingStrategy.FSDP_GRAD_OP: {"reshard_after_forward": False},
    ShardingStrategy.HYBRID: {"reshard_after_forward": True, "shard_size": 2},
}


def documented_variables(strategy: ShardingStrategy) -> set[str]:
    """What docs/exports.md says of the strategy's variables."""
    text = (Path(__file__).parents[2] / "docs" / "exports.md").read_text("utf-8")
    section = text.partition("## The AUTOTUNE variables")[2]
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| ")]
    return {
        name
        for who, names in rows
        if "every strategy" in who or f"`{strategy.value}`" in who
        for name in re.findall(r"`(AUTOTUNE_\w+)`", names)
    }


@pytest.mark.parametrize("form", ["env", "torchrun", "slurm"])
@pytest.mark.parametrize("strategy", ShardingStrategy)
def test_only_what_applies_to_the_strategy_is_set_as_documented(
    form: str, strategy: ShardingStrategy
) -> None:
    settings = TrainingSettings(
        strategy=strategy, micro_batch=4, accumulation_steps=2, **LAYOUTS[strategy]
    )
    text = exporter(form).export(configuration(settings=settings))
    exported = set(re.findall(r"^export (AUTOTUNE_\w+)=", text, re.MULTILINE))
    assert exported == documented_variables(strategy)
    (unset,) = [line.split()[1:] for line in text.splitlines() if line.startswith("unset ")]
    every = {f"AUTOTUNE_{field.name.upper()}" for field in dataclasses.fields(TrainingSettings)}
    assert set(unset) == every - exported


def test_an_unknown_form_names_those_there_are() -> None:
    with pytest.raises(FieldError, match=r"did you mean 'torchrun'.*env, torchrun"):
        exporter("torchrn")


RANK_SCRIPT = """
import json, os, sys
import torch.distributed as dist
dist.init_process_group("gloo")
size = dist.get_world_size()
with open(f"rank{os.environ['RANK']}.json", "w") as file:
    json.dump({"size": size, "arguments": sys.argv[1:], "environment": dict(os.environ)}, file)
dist.barrier()
dist.destroy_process_group()
"""


def ranks(folder: Path) -> list[dict[str, object]]:
    return [json.loads((folder / f"rank{i}.json").read_text()) for i in range(2)]


def test_torchrun_launches_two_ranks_with_the_settings(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(RANK_SCRIPT)
    (tmp_path / "launch.sh").write_text(exporter("torchrun").export(configuration()))
    arguments = ["--lr", "3e-4", "two words", "$HOME"]
    done = run(["sh", "launch.sh", "train.py", *arguments], tmp_path, AUTOTUNE_SHARD_SIZE="2")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "hacked").exists()
    threads = str(max(1, len(os.sched_getaffinity(0)) // 2))
    for rank in ranks(tmp_path):
        assert rank["size"] == 2
        assert rank["arguments"] == arguments
        assert is_part(NASTY | OWN | {"OMP_NUM_THREADS": threads}, rank["environment"])  # type: ignore[arg-type]
        assert "AUTOTUNE_SHARD_SIZE" not in rank["environment"]  # type: ignore[operator]


def test_torchrun_joins_two_nodes(tmp_path: Path) -> None:
    """Both nodes are this machine: the same script, started twice, makes one world of 2 ranks."""
    best = configuration()
    target = dataclasses.replace(best.target, nodes=2, ranks_per_node=1)
    (tmp_path / "train.py").write_text(RANK_SCRIPT)
    (tmp_path / "launch.sh").write_text(
        exporter("torchrun").export(configuration(target=target, run_id="a b; touch hacked"))
    )
    path = f"{sysconfig.get_path('scripts')}:/usr/bin:/bin"
    environment = {"PATH": path, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    nodes = [
        subprocess.Popen(["sh", "launch.sh", "train.py"], cwd=tmp_path, env=environment)
        for _ in range(2)
    ]
    try:
        assert [node.wait(timeout=120) for node in nodes] == [0, 0]
    finally:
        for node in nodes:
            node.kill()
            node.wait()
    assert [rank["size"] for rank in ranks(tmp_path)] == [2, 2]
    cores = {"OMP_NUM_THREADS": str(len(os.sched_getaffinity(0)))}
    assert all(is_part(cores, rank["environment"]) for rank in ranks(tmp_path))  # type: ignore[arg-type]
    assert not (tmp_path / "hacked").exists()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def test_torchrun_asks_for_what_it_needs(tmp_path: Path) -> None:
    best = configuration()
    target = dataclasses.replace(best.target, nodes=2, ranks_per_node=1)
    (tmp_path / "launch.sh").write_text(exporter("torchrun").export(configuration(target=target)))
    without_script = run(["sh", "launch.sh"], tmp_path)
    assert without_script.returncode != 0
    assert "name the training script" in without_script.stderr
    without_address = run(["sh", "launch.sh", "train.py"], tmp_path)
    assert without_address.returncode != 0
    assert "address of one node" in without_address.stderr
