"""`autotune knobs`, `instances` and `run --space`, as a user calls them."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import warm_command

OWN = "knobs:\n  - name: accumulation_steps\n    choices: [{value: 1}, {value: 16}]\n"
"""The one candidate is so much slower than the defaults that nothing is confirmed."""


def call(
    folder: Path, *arguments: str, expect: int = 0, **environment: str
) -> "subprocess.CompletedProcess[str]":
    clean = {name: value for name, value in os.environ.items() if "NCCL" not in name}
    ours = {"AUTOTUNE_HOME": str(folder / "data"), **environment}
    done = warm_command.call(folder, *arguments, environment={**clean, **ours})
    assert done.returncode == expect, done.stderr
    assert "Traceback" not in done.stderr
    return done


def knobs(folder: Path, *arguments: str, **environment: str) -> dict[str, dict[str, Any]]:
    done = call(folder, "knobs", *arguments, "--format", "json", **environment)
    return {row["name"]: row for row in json.loads(done.stdout)}


def test_fsdp_on_a_p4d(tmp_path: Path) -> None:
    arguments = [
        "--instance", "p4d.24xlarge", "--assume", "nccl=2.27.5,torch=2.9.1,plugin=1.17",
        "--strategy", "fsdp_full",
    ]  # fmt: skip
    found = knobs(tmp_path, *arguments, "--why")
    assert "no tree for all-gather" in found["nccl_algorithm"]["left_out"]["tree"]
    assert "force simple" in found["nccl_protocol"]["left_out"]["ll128"]
    assert "force simple" in found["nccl_protocol"]["left_out"]["ll"]
    assert found["nccl_channels"]["searched"]
    assert found["nccl_buffer_bytes"]["default_means"] == 8388608
    assert "8388608" in found["nccl_buffer_bytes"]["left_out"]
    for name in ("nccl_socket_nthreads", "nccl_nsocks_perthread"):
        assert "for TCP, and nodes like this reach each other by EFA" in found[name]["reason"]
    assert "send" in found["nccl_p2p_net_chunksize"]["reason"]
    for text in (call(tmp_path, "knobs", *arguments, "--why").stdout,):
        folded = " ".join(text.split())
        assert "NCCL has no tree for all-gather" in folded
        assert "default (8388608)" in folded
        assert "for TCP, and nodes like this reach each other by EFA" in folded


def test_several_nodes_of_p4d_have_efa_and_no_sockets(tmp_path: Path) -> None:
    found = knobs(
        tmp_path, "--instance", "p4d.24xlarge", "--assume", "nccl=2.27.5,nodes=2",
        "--strategy", "fsdp_full",
    )  # fmt: skip
    assert "nodes like this reach each other by EFA" in found["nccl_socket_nthreads"]["reason"]


def test_sockets_on_p3(tmp_path: Path) -> None:
    found = knobs(tmp_path, "--instance", "p3.8xlarge", "--assume", "nccl=2.21.5,nodes=2")
    assert found["nccl_socket_nthreads"]["searched"]
    assert found["nccl_nsocks_perthread"]["searched"]
    assert found["nccl_buffer_bytes"]["default_means"] == 4194304
    assert found["nccl_nvls"]["reason"]
    assert "ll128" in found["nccl_protocol"]["left_out"]


def test_a_v100_has_no_bfloat16(tmp_path: Path) -> None:
    found = knobs(
        tmp_path, "--instance", "p3.8xlarge", "--assume", "nccl=2.21.5", "--space", "full",
        "--allow-lossy",
    )["compute_dtype"]  # fmt: skip
    assert (found["values"], found["default_means"]) == (["default"], "float32")
    assert "compute capability 8.0 or later" in found["left_out"]["bfloat16"]


def test_a_pin_that_can_not_be_is_refused_with_its_reason(tmp_path: Path) -> None:
    described = ["--instance", "p4d.24xlarge", "--assume", "nccl=2.27.5,plugin=1.17"]
    pin = ["--strategy", "fsdp_full", "--set", "nccl_algorithm=tree"]
    done = call(tmp_path, "knobs", *described, *pin, expect=2)
    assert "'tree' is left out here: NCCL has no tree for all-gather" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_misspelt_instance_is_the_nearest_one(tmp_path: Path) -> None:
    done = call(tmp_path, "knobs", "--instance", "p5.49xlarge", expect=2)
    assert "did you mean 'p5.48xlarge'?" in done.stderr
    assert "hint: autotune instances lists them" in done.stderr


def test_two_nodes_of_p5(tmp_path: Path) -> None:
    arguments = ["--instance", "p5.48xlarge", "--assume", "nccl=2.31.2,plugin=1.21.1,nodes=2"]
    found = knobs(tmp_path, *arguments, "--space", "full", "--strategy", "ddp")
    assert set(found["nccl_algorithm"]["values"]) == {"default", "ring", "tree", "nvls_tree"}
    assert found["nccl_buffer_bytes"]["default_means"] == 8388608
    assert "ll" in found["nccl_protocol"]["values"]
    assert found["nccl_nvls"]["searched"]
    assert found["ofi_protocol"]["searched"]
    assert found["nccl_cross_nic"]["searched"]
    fsdp = knobs(tmp_path, *arguments, "--strategy", "fsdp_full")
    assert "nvls_tree" in fsdp["nccl_algorithm"]["left_out"]


def test_g5_has_neither_nvlink_nor_presets(tmp_path: Path) -> None:
    found = knobs(tmp_path, "--instance", "g5.48xlarge", "--assume", "nccl=2.27.5,plugin=1.17")
    assert found["nccl_protocol"]["values"] == ["default"]
    assert found["nccl_buffer_bytes"]["default_means"] == 4194304
    assert "SYS" in found["nccl_p2p_level"]["values"]
    assert not found["nccl_p2p_level"]["searched"]


def test_this_machine_without_gpus(tmp_path: Path) -> None:
    found = knobs(tmp_path, "--instance", "local", "--nproc", "2")
    if "cuda" not in found["nccl_channels"]["reason"]:
        pytest.skip("this machine has GPUs")
    assert found["strategy"]["searched"]
    assert not any(row["searched"] for name, row in found.items() if name.startswith("nccl"))


@pytest.mark.parametrize(
    ("version", "algorithms"),
    [("2.18.5", {"ring", "tree"}), ("2.21.5", {"ring"}), ("2.31.2", {"ring", "tree"})],
)
def test_versions_decide(tmp_path: Path, version: str, algorithms: set[str]) -> None:
    """Under 2.21 the small collectives would run on a ring that heeds no protocol."""
    found = knobs(
        tmp_path, "--instance", "p4d.24xlarge", "--assume", f"nccl={version},plugin=1.17",
        "--strategy", "ddp", "--space", "full",
    )  # fmt: skip
    assert set(found["nccl_algorithm"]["values"]) - {"default"} == algorithms
    chunk = found["nccl_nvlstree_chunk_bytes"]
    assert not chunk["values"]


def test_nothing_known_of_nccl_is_said(tmp_path: Path) -> None:
    done = call(tmp_path, "knobs", "--instance", "p4d.24xlarge")
    assert "p4d.24xlarge is described from the catalogue" in done.stderr
    assert "--assume nccl=" in done.stderr
    assert "nccl_channels" in done.stdout


def test_the_environment_is_looked_at(tmp_path: Path) -> None:
    arguments = ["knobs", "--instance", "p4d.24xlarge", "--assume", "nccl=2.27.5", "--why"]
    done = call(tmp_path, *arguments, NCCL_BUFFSIZE="1048576", NCCL_NCHANNELS="4")
    assert "Your environment decides: NCCL_BUFFSIZE=1048576." in " ".join(done.stdout.split())
    assert "NCCL_NCHANNELS=4 in the environment" in done.stderr
    done = call(tmp_path, *arguments, "--set", "NCCL_NCHANNELS=4")
    assert "taken as nccl_channels" in done.stderr


TEN_MISTAKES = """\
knobs:
  - name: bucket_cap_md
    choices: [{value: default}, {value: 10}]
  - name: strategy
    efect: large
  - name: compile
    searched: ful
  - name: activation_checkpointing
    choices: []
  - name: nccl_nthreads
    when: {rank: ">=2"}
  - name: nccl_channels
    when: {nccl: "=>2.24"}
    choices: [{value: default}, {value: 128}]
  - name: static_graph
    default: on
  - name: my_threads
    help: Mine.
    sets: {kind: environment, name: OMP_NUM_THREADS}
    effect: small
    choices: [{value: default}, {value: 3}]
    default: default
  - name: nccl_protocol
    choices: [{value: default}, {value: l128}]
"""
"""Each of another kind: a name, a key, a word, a list, a condition's key, a comparison, a range,
YAML, two knobs for one variable, a value."""
SAID = (
    "2: knobs[0].name: 'bucket_cap_md' is no knob, and too little is said of it for a new one; "
    "did you mean 'bucket_cap_mb'?",
    "5: knobs[1].efect: 'efect' is unknown; did you mean 'effect'?",
    "7: knobs[2].searched: 'ful' is not known; did you mean 'full'?",
    "9: knobs[3].choices: [] has to list at least one value",
    "11: knobs[4].when.rank: 'rank' is no knob and no fact; did you mean 'ranks'?",
    "13: knobs[5].when.nccl: '=>2.24' is not a comparison such as '>=2.24'",
    "14: knobs[5].choices[1].value: 128 is outside 1 to 64",
    "16: knobs[6].default: 'on' is read differently by different YAML readers",
    "19: knobs[7].sets.name: 'OMP_NUM_THREADS' is set by cpu_threads already",
    "24: knobs[8].choices[1].value: 'l128' is unknown; did you mean 'll128'?",
)


@pytest.mark.parametrize("command", [["knobs"], ["run", "--instance", "local"]])
def test_ten_mistakes_in_a_file_get_ten_messages_at_once(
    tmp_path: Path, command: list[str]
) -> None:
    (tmp_path / "own.yaml").write_text(TEN_MISTAKES)
    done = call(tmp_path, *command, "--space", "own.yaml", expect=2)
    lines = done.stderr.splitlines()
    assert lines[0] == "error: own.yaml has 10 mistakes:"
    found = [line.strip() for line in lines if line.startswith("  own.yaml:")]
    assert len(found) == len(SAID)
    for line, said in zip(found, SAID, strict=True):
        assert line.startswith(f"own.yaml:{said}")


def test_instances_of_one_s_own(tmp_path: Path) -> None:
    (tmp_path / "box.yaml").write_text(
        "instances:\n  - name: box\n    gpu: H100\n    gpus: 8\n    gpu_memory_mib: 81920\n"
        "    interconnect: nvswitch\n    vcpus: 128\n    memory_gib: 1024\n    network_gbps: 400\n"
        "    nics: 8\n    efa: false\n    infiniband: true\n"
    )
    assert "box " in call(tmp_path, "instances", "--instances", "box.yaml").stdout
    found = knobs(
        tmp_path, "--instance", "box", "--instances", "box.yaml", "--assume", "nccl=2.27.5,nodes=2",
        "--strategy", "ddp",
    )  # fmt: skip
    assert "by InfiniBand" in found["nccl_socket_nthreads"]["reason"]
    assert "nvls_tree" in found["nccl_algorithm"]["values"]


def test_a_run_with_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(OWN)
    done = call(
        tmp_path, "run", "--instance", "auto", "--no-imds", "--nproc", "2", "--trials", "1",
        "--window", "0.05s", "--set", "strategy=ddp",
        "--space", "own.yaml", "--only", "accumulation_steps",
        "--output", "best.yaml",
        NCCL_NCHANNELS="4",
    )  # fmt: skip
    assert "NCCL_NCHANNELS=4 in the environment" in done.stderr
    shown = json.loads(call(tmp_path, "show", "latest", "--format", "json").stdout)
    assert shown["study"]["spec"]["space"] == "own.yaml"
    assert shown["study"]["spec"]["space_text"] == OWN
    tried = [trial["settings"]["batch"]["accumulation_steps"] for trial in shown["trials"]]
    assert tried[:3] == [1, 1, 1]
    # On a busy machine the baseline may be launched again before.
    assert next(steps for steps in tried if steps != 1) == 16
