"""Exports to other tools, read back by the tools' own parsers where these are installed."""

import ast
import csv
import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from autotune.errors import UserError
from autotune.exporters import EXPORTERS, exporter
from autotune.exporters.asked import ALWAYS, asked
from autotune.model import BestConfiguration, TrainingSettings
from tests.bests import best_here, best_on_p4d

FULL = {"strategy": "fsdp_full", "reshard_after_forward": True}
GRAD_OP = {"strategy": "fsdp_grad_op", "reshard_after_forward": False}
HYBRID = {"strategy": "hybrid", "reshard_after_forward": True, "shard_size": 8}
NCCL = {"NCCL_BUFFSIZE": "8388608", "NCCL_PROTO": "Simple", "FI_EFA_USE_DEVICE_RDMA": "1"}
NASTY = {"A": 'it\'s "b" $HOME $$ $(NAME) \\n `x` # ; é', "EMPTY": "", "EQUALS": "a=b"}


def export(to: str, best: BestConfiguration) -> str:
    return exporter(to).export(best)


def refusal(to: str, best: BestConfiguration) -> str:
    with pytest.raises(UserError) as caught:
        export(to, best)
    return str(caught.value)


def module(text: str, folder: Path) -> ModuleType:
    path = folder / "exported.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("exported", path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


CASES: dict[str, dict[str, Any]] = {
    "ddp": {"bucket_cap_mb": 50, "gradient_as_bucket_view": True, "static_graph": True,
            "activation_checkpointing": "every_block", "communication_hook": "fp16",
            "compute_dtype": "float32", "compile": True, "binding": "numa"},
    "fsdp_full": FULL | {"blocks_per_group": 2, "forward_prefetch": 1, "backward_prefetch": 2,
                         "reshard_after_backward": False, "force_sum_reduction": True,
                         "reduce_dtype": "bfloat16", "activation_checkpointing": "every_block"},
    "hybrid": HYBRID,
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("to", EXPORTERS)
def test_nothing_is_dropped_unsaid(to: str, case: str) -> None:
    """Each setting is refused, listed, or makes a difference: to the content, or to the list."""
    best = best_on_p4d(CASES[case], environment={"NCCL_BUFFSIZE": "8388608"})
    wanted = exporter(to)
    try:
        text, left_out = wanted.export(best), wanted.left_out(best)
    except UserError:
        return
    for name in set(asked(best)) - set(ALWAYS) - set(HYBRID):
        settings = {n: v for n, v in CASES[case].items() if n != name}
        other = best_on_p4d(settings, environment={"NCCL_BUFFSIZE": "8388608"})
        is_listed = any(re.match(rf"{name}\b", one) for one in left_out)
        is_other = content(text) != content(wanted.export(other))
        assert is_listed or is_other or left_out != wanted.left_out(other), name
    assert any("NCCL_BUFFSIZE" in one for one in left_out) or "8388608" in text


def content(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_what_is_asked_for_is_every_setting_that_is_not_a_default() -> None:
    assert set(asked(best_on_p4d())) == set(ALWAYS)
    names = {name for case in CASES.values() for name in asked(best_on_p4d(case))}
    assert names | {"reshard_after_forward"} == {field.name for field in fields(TrainingSettings)}


# NCCL's parser is C code inside of the library. This follows its rules as the facts of NCCL v2.30's
# src/misc/param.cc say them: NAME=VALUE, '#' as a line's first character, nothing trimmed.
def read_nccl_conf(text: str) -> dict[str, str]:
    pairs = [one.partition("=") for one in text.splitlines() if not one.startswith("#")]
    return {name: value for name, equals, value in pairs if equals}


def test_nccl_conf() -> None:
    best = best_on_p4d(environment=NCCL)
    assert read_nccl_conf(export("nccl-conf", best)) == {
        "NCCL_BUFFSIZE": "8388608", "NCCL_PROTO": "Simple",
    }  # fmt: skip
    assert "FI_EFA_USE_DEVICE_RDMA in the environment" in exporter("nccl-conf").left_out(best)
    assert "has nothing that NCCL reads" in refusal("nccl-conf", best_on_p4d())


def test_accelerate_reads_its_file(tmp_path: Path) -> None:
    config_args = pytest.importorskip("accelerate.commands.config.config_args")
    path = tmp_path / "accelerate.yaml"
    path.write_text(export("accelerate", best_on_p4d(HYBRID)), encoding="utf-8")
    config = config_args.load_config_from_file(str(path))
    assert (config.distributed_type, config.num_processes, config.num_machines) == ("FSDP", 16, 2)
    assert config.mixed_precision == "bf16"
    assert config.fsdp_config["fsdp_version"] == 2
    assert config.fsdp_config["fsdp_reshard_after_forward"] is True
    assert config.parallelism_config["parallelism_config_dp_shard_size"] == 8


def test_accelerate_refuses_what_it_has_no_value_for() -> None:
    half = FULL | {"activation_checkpointing": "every_second_block"}
    assert "checkpoints every block or none" in refusal("accelerate", best_on_p4d(half))
    some = FULL | {"reshard_after_forward": 8}
    assert "true or false only" in refusal("accelerate", best_on_p4d(some))
    for to in ("accelerate", "hf"):
        assert "on CPUs Accelerate takes DDP in its place" in refusal(to, best_here(FULL))
    left_out = exporter("accelerate").left_out(best_on_p4d(FULL))
    assert any(one.startswith("reduce_dtype=float32: Accelerate reduces") for one in left_out)


@pytest.mark.filterwarnings("ignore")
def test_transformers_reads_its_arguments(tmp_path: Path) -> None:
    """In a process of its own: transformers takes seconds to import and warns of much."""
    pytest.importorskip("accelerate")
    if importlib.util.find_spec("transformers") is None:
        pytest.skip("needs transformers")
    sharded = FULL | {"activation_checkpointing": "every_block", "compute_dtype": "float32"}
    replicated = {"bucket_cap_mb": 50, "activation_checkpointing": "every_block"}
    (tmp_path / "full.json").write_text(export("hf", best_on_p4d(sharded)))
    (tmp_path / "ddp.json").write_text(export("hf", best_here(replicated)))
    program = (
        "import json\nfrom transformers import HfArgumentParser, TrainingArguments\n"
        "for name in ('full', 'ddp'):\n"
        "    (a,) = HfArgumentParser(TrainingArguments).parse_json_file(f'{name}.json')\n"
        "    print(json.dumps([a.per_device_train_batch_size, a.gradient_accumulation_steps,"
        " a.bf16, a.ddp_bucket_cap_mb, bool(a.gradient_checkpointing), a.fsdp_plugin_args]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], cwd=tmp_path, capture_output=True,
        text=True, check=False, timeout=120, env={**os.environ, "USE_TF": "0"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    full, ddp = (json.loads(line) for line in done.stdout.splitlines())
    assert ddp[:5] == [4, 2, False, 50, True]
    assert full[:3] == [8, 2, False]
    assert full[5]["fsdp_version"] == 2
    assert full[5]["reshard_after_forward"] is True
    assert full[5]["activation_checkpointing"] is True


def test_transformers_has_no_mesh() -> None:
    assert "no 2-D mesh (one of: ddp, fsdp_full, fsdp_grad_op)" in refusal(
        "hf", best_on_p4d(HYBRID)
    )


# torchtitan's own parser needs the whole of torchtitan. TOML is read by Python's parser; the names
# are those of torchtitan 0.2's JobConfig (config/job_config.py).
def test_torchtitan() -> None:
    half = HYBRID | {"activation_checkpointing": "every_second_block", "compile": True}
    text = export("torchtitan", best_on_p4d(half))
    assert tomllib.loads(text) == {
        "training": {
            "local_batch_size": 8, "global_batch_size": 256, "mixed_precision_param": "bfloat16",
        },
        "parallelism": {
            "data_parallel_replicate_degree": 2, "data_parallel_shard_degree": 8,
            "fsdp_reshard_after_forward": "always",
        },
        "activation_checkpoint": {"mode": "selective", "selective_ac_option": "2"},
        "compile": {"enable": True},
    }  # fmt: skip
    assert "--parallelism.data_parallel_shard_degree 8 " in text
    never = tomllib.loads(export("torchtitan", best_on_p4d(GRAD_OP)))["parallelism"]
    assert never["fsdp_reshard_after_forward"] == "never"
    assert "always and never only" in refusal(
        "torchtitan", best_on_p4d(FULL | {"reshard_after_forward": 4})
    )


# DeepSpeed is built from source at installation, so its parser isn't here: the keys are those of
# its documentation, and the one rule that it checks is the product of the batches.
def test_deepspeed() -> None:
    best = best_on_p4d({"bucket_cap_mb": 50}, environment=NCCL)
    found = json.loads(export("deepspeed", best))
    assert found == {
        "train_batch_size": 256, "train_micro_batch_size_per_gpu": 8,
        "gradient_accumulation_steps": 2, "zero_optimization": {"stage": 0},
        "torch_autocast": {"enabled": True, "dtype": "bfloat16"},
    }  # fmt: skip
    assert found["train_batch_size"] == 8 * 2 * best.target.ranks
    assert "bucket_cap_mb=50" in exporter("deepspeed").left_out(best)
    assert "NCCL_BUFFSIZE in the environment" in exporter("deepspeed").left_out(best)
    for sharded in (FULL, GRAD_OP, HYBRID):
        assert "ZeRO is another implementation" in refusal("deepspeed", best_on_p4d(sharded))


def variables_in(text: str, name: str) -> dict[str, str]:
    """The literal that a Python export assigns to `name`."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == name:
            found: dict[str, str] = ast.literal_eval(node.value)
            return found
    raise AssertionError(name)


def test_ray(tmp_path: Path) -> None:
    text = export("ray", best_on_p4d(environment={**NCCL, "QUOTES": 'it\'s "x"\\é'}))
    found = variables_in(text, "env_vars")
    assert found["QUOTES"] == 'it\'s "x"\\é'
    assert found["NCCL_BUFFSIZE"] == "8388608"
    assert found["AUTOTUNE_STRATEGY"] == "ddp"
    assert "can't be given to Ray, which replaces $NAME" in refusal(
        "ray", best_on_p4d(environment=NASTY)
    )
    ray_train = pytest.importorskip("ray.train")
    config = module(text, tmp_path).scaling_config
    assert isinstance(config, ray_train.ScalingConfig)
    assert (config.num_workers, config.use_gpu) == (16, True)


# SageMaker's SDK is heavy (pandas, scikit-learn). It is checked that the module is Python, that its
# names are those of the SDK 3, and that the API's limits hold.
def test_sagemaker() -> None:
    text = export("sagemaker", best_on_p4d(environment=NASTY))
    assert variables_in(text, "environment")["A"] == NASTY["A"]
    assert "instance_type='ml.p4d.24xlarge', instance_count=2" in text
    assert "Torchrun(process_count_per_node=8)" in text
    imported = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ImportFrom)]
    assert {f"{n.module}.{a.name}" for n in imported for a in n.names} == {
        "sagemaker.train.ModelTrainer", "sagemaker.train.configs.Compute",
        "sagemaker.train.configs.SourceCode", "sagemaker.train.distributed.Torchrun",
    }  # fmt: skip
    assert "is no EC2 instance" in refusal("sagemaker", best_here())
    assert "longer than SageMaker's 512" in refusal(
        "sagemaker", best_on_p4d(environment={"A": "x" * 513})
    )
    many = {f"V{number}": "x" for number in range(100)}
    assert "more than SageMaker's 100" in refusal("sagemaker", best_on_p4d(environment=many))


def test_kubernetes_manifests_keep_values_as_they_are() -> None:
    best = best_on_p4d(environment=NASTY)
    manifest = yaml.safe_load(export("kubernetes", best))
    assert (manifest["apiVersion"], manifest["kind"]) == ("kubeflow.org/v1", "PyTorchJob")
    assert re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", manifest["metadata"]["name"])
    replicas = manifest["spec"]["pytorchReplicaSpecs"]
    assert {role: one["replicas"] for role, one in replicas.items()} == {"Master": 1, "Worker": 1}
    assert manifest["spec"]["nprocPerNode"] == "8"
    container = replicas["Worker"]["template"]["spec"]["containers"][0]
    assert container["name"] == "pytorch"
    assert container["resources"] == {"limits": {"nvidia.com/gpu": 8}}
    found = {one["name"]: expanded(one["value"]) for one in container["env"]}
    assert {name: found[name] for name in NASTY} == NASTY
    single = yaml.safe_load(export("kubernetes", best_here()))
    assert list(single["spec"]["pytorchReplicaSpecs"]) == ["Master"]


def expanded(value: str) -> str:
    """As third_party/forked/golang/expansion of Kubernetes: no variable is known here."""
    return re.sub(r"\$\$|\$\(\w+\)", lambda found: "$" if found[0] == "$$" else found[0], value)


def test_kubernetes_ray_manifest() -> None:
    manifest = yaml.safe_load(export("kubernetes-ray", best_on_p4d(environment=NCCL)))
    assert (manifest["apiVersion"], manifest["kind"]) == ("ray.io/v1", "RayJob")
    variables = yaml.safe_load(manifest["spec"]["runtimeEnvYAML"])["env_vars"]
    assert variables["NCCL_BUFFSIZE"] == "8388608"
    (group,) = manifest["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    assert group["replicas"] == group["minReplicas"] == group["maxReplicas"] == 2


def test_lightning_takes_the_strategies(tmp_path: Path) -> None:
    strategies = pytest.importorskip("lightning.pytorch.strategies")
    replicated = {"bucket_cap_mb": 50, "static_graph": True, "communication_hook": "fp16"}
    found = module(export("lightning", best_on_p4d(replicated)), tmp_path)
    assert isinstance(found.strategy, strategies.DDPStrategy)
    assert found.strategy._ddp_kwargs == {
        "bucket_cap_mb": 50, "gradient_as_bucket_view": False, "static_graph": True,
    }  # fmt: skip
    assert found.strategy._ddp_comm_hook.__name__ == "fp16_compress_hook"
    assert found.trainer_arguments["precision"] == "bf16-mixed"
    sharded = module(export("lightning", best_on_p4d(HYBRID)), tmp_path)
    assert isinstance(sharded.strategy, strategies.ModelParallelStrategy)
    assert sharded.trainer_arguments["precision"] == "32-true"
    assert (sharded.batch_size, sharded.trainer_arguments["num_nodes"]) == (8, 2)
    assert sharded.trainer_arguments["accumulate_grad_batches"] == 2


def test_slurm_script_runs_torchrun_on_each_node(tmp_path: Path) -> None:
    """Slurm's programs are stand-ins here: srun runs its command, as on a single node."""
    for name, text in {
        "srun": 'shift; exec "$@"', "scontrol": "echo localhost",
        "torchrun": 'printf "%s\\n" "$@"; env -0 >env',
    }.items():  # fmt: skip
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    script = tmp_path / "job.sh"
    script.write_text(export("slurm", best_on_p4d(environment=NASTY)), encoding="utf-8")
    environment = {
        "PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_JOB_ID": "1234", "SLURM_JOB_NODELIST": "n[1-2]",
    }  # fmt: skip
    done = subprocess.run(
        ["bash", str(script), "train.py", "two words"], cwd=tmp_path, env=environment,
        capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "--nnodes", "2", "--nproc-per-node", "8", "--rdzv-backend", "c10d", "--rdzv-endpoint",
        "localhost:29734", "--rdzv-id", "1234", "train.py", "two words",
    ]  # fmt: skip
    seen = dict(
        one.split("=", 1) for one in (tmp_path / "env").read_text().split("\0") if "=" in one
    )
    assert {name: seen[name] for name in NASTY} == NASTY
    head = script.read_text().splitlines()
    assert "#SBATCH --nodes=2" in head
    assert "#SBATCH --gpus-per-node=8" in head
    command = next(index for index, line in enumerate(head) if not line.startswith("#"))
    assert all(i < command for i, line in enumerate(head) if line.startswith("#SBATCH"))


TUNED = {
    "NCCL_ALGO": "ring,tree,collnetdirect,collnetchain,nvls,nvlstree,pat;allreduce:tree",
    "NCCL_PROTO": "allreduce:simple", "NCCL_MIN_CTAS": "16", "NCCL_MAX_CTAS": "16",
}  # fmt: skip


# The plugin's parser is C code of NVIDIA's example; its form is that of its README and source.
def test_nccl_tuner() -> None:
    text = export("nccl-tuner", best_on_p4d(environment=TUNED))
    rows = list(csv.reader(line for line in text.splitlines() if not line.startswith("#")))
    assert rows == [["allreduce", "0", str(2**62), "tree", "simple", "16", "2", "16"]]
    assert all(len(line) < 256 for line in text.splitlines())
    without = {name: value for name, value in TUNED.items() if "CTAS" not in name}
    assert "names no number of channels" in refusal("nccl-tuner", best_on_p4d(environment=without))
    plain = {"NCCL_MIN_CTAS": "16", "NCCL_MAX_CTAS": "16"}
    assert "leaves NCCL its choice" in refusal("nccl-tuner", best_on_p4d(environment=plain))
    assert "versions.nccl" in refusal("nccl-tuner", best_on_p4d(environment=TUNED, versions={}))


@pytest.mark.parametrize("to", ["nccl-conf", "nccl-tuner"])
def test_what_nccl_reads_is_refused_for_an_answer_of_cpus(to: str) -> None:
    assert "on CPUs the ranks used Gloo" in refusal(to, best_here(environment=TUNED))


def test_every_form_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "exports.md").read_text("utf-8")
    assert {*re.findall(r"^\| `([\w-]+)` \|", text, re.MULTILINE)} >= {*EXPORTERS}
