"""What is sent with a job: a wheel that is whole, what it needs, and the user's files."""

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import autotune
from autotune.errors import UserError
from autotune.model import StudySpec, Target
from autotune.request import Request, Spaces
from autotune.sagemaker import work_files
from autotune.sagemaker.arguments import Asked, files_of, inside_arguments
from autotune.sagemaker.bundle import JobFile, code_objects
from autotune.sagemaker.inside.job import read_job
from autotune.sagemaker.wheel import build_wheel, requirements

TARGET = Target(instance="p4d.24xlarge", nodes=2, ranks_per_node=8, workload="tiny", global_batch=8)


def test_the_wheel_runs_without_a_checkout(tmp_path: Path) -> None:
    name, content = build_wheel()
    assert name == f"autotune_train-{autotune.__version__}-py3-none-any.whl"
    assert build_wheel() == (name, content), "the same package is the same wheel"
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        archive.extractall(tmp_path)
        assert archive.testzip() is None
    done = subprocess.run(
        [sys.executable, "-c", "import autotune.trainers.rank, autotune.storage.sql, autotune\n"
         "from autotune.space.instances import load_instances\n"
         "from importlib.metadata import version\n"
         "print(autotune.__file__, version('autotune-train'), len(load_instances()))"],
        env={"PYTHONPATH": str(tmp_path), "PATH": ""}, cwd=tmp_path,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.startswith(str(tmp_path)), done.stderr


def test_pip_installs_the_wheel(tmp_path: Path) -> None:
    name, content = build_wheel()
    (tmp_path / name).write_bytes(content)
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target",
         str(tmp_path / "site"), str(tmp_path / name)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site/bin/autotune").exists()


def test_what_a_container_has_is_not_asked_for() -> None:
    alone = requirements("s3")
    names = {line.split(">")[0].split("[")[0] for line in alone}
    assert {"sqlalchemy", "typer", "boto3"} <= names
    assert not names & {"torch", "ray", "pytest"}
    assert any(line.startswith("ray[") for line in requirements("s3", "ray"))


def test_a_bundle_is_read_by_the_program_inside(tmp_path: Path) -> None:
    objects = code_objects(2, {"my_pkg/train.py": b"x = 1\n"})
    job = JobFile(
        run_id="r", arguments=["--instance", "p4d.24xlarge"], s3="s3://b/autotune/r", nodes=2,
        time_limit_s=3600, cost_limit_usd=20.0, usd_per_hour=40.0, spent_usd=5.0,
    )  # fmt: skip
    for name, content in {**objects, "code/job.json": job.to_bytes()}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    assert {path.name for path in (tmp_path / "code").iterdir()} == {
        f"autotune_train-{autotune.__version__}-py3-none-any.whl",
        "requirements.txt", "start.py", "job.json", "work",
    }  # fmt: skip
    there = read_job(tmp_path / "code/job.json")
    assert there.limit_s == 1350.0
    assert (there.run_id, there.nodes, there.arguments) == ("r", 2, ("--instance", "p4d.24xlarge"))
    assert (tmp_path / "code/work/my_pkg/train.py").read_text() == "x = 1\n"


def test_a_librarys_model_needs_the_library() -> None:
    needed = code_objects(1, {}, "hf:gpt2")["code/requirements.txt"].decode()
    assert "transformers" in needed
    assert "transformers" not in code_objects(1, {}, "tiny")["code/requirements.txt"].decode()


def test_the_users_folder_goes_along_without_what_is_not_theirs(tmp_path: Path) -> None:
    for name in ("a.py", "pkg/b.py", ".env", ".git/x", "pkg/__pycache__/b.pyc", "v/lib/c.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "v/pyvenv.cfg").write_text("")
    assert set(work_files.work_files(tmp_path)) == {"a.py", "pkg/b.py"}


def test_a_folder_of_data_is_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_files, "MOST_BYTES", 10)
    (tmp_path / "data.bin").write_bytes(b"x" * 11)
    with pytest.raises(UserError, match="all of it would be sent"):
        work_files.work_files(tmp_path)


def test_the_arguments_inside_say_what_was_asked_here(tmp_path: Path) -> None:
    (tmp_path / "types.yaml").write_text("instances: []\n")
    request = Request(
        instance="p4d.24xlarge", workload="bert-large", nproc=4, global_batch=64, seed=3,
        pinned={"strategy": "ddp"}, only=("bucket_cap_mb", "compile"), allow_lossy=True,
        space=Spaces(name="own.yaml", text="knobs: []\n"), instances=tmp_path / "types.yaml",
    )  # fmt: skip
    words = inside_arguments(
        request, StudySpec(target=TARGET, budget_s=90.0), Asked(window="1s", cold=True)
    )
    assert words == [
        "--instance", "p4d.24xlarge", "--workload", "bert-large", "--nproc", "4", "--global-batch",
        "64", "--budget", "90s", "--seed", "3", "--window", "1s", "--strategy", "staged", "--space",
        "autotune_space.yaml", "--instances", "autotune_instances.yaml", "--only",
        "bucket_cap_mb,compile", "--set", "strategy=ddp", "--allow-lossy", "--cold",
    ]  # fmt: skip
    assert set(files_of(request)) == {"autotune_space.yaml", "autotune_instances.yaml"}


def test_a_script_is_the_end_of_the_arguments() -> None:
    asked = Asked(script=("train.py", "--lr", "1"), samples_per_step=8)
    words = inside_arguments(Request(), StudySpec(target=TARGET, budget_s=None), asked)
    assert words[-4:] == ["--", "train.py", "--lr", "1"]
    assert "--workload" not in words
    assert words[words.index("--samples-per-step") + 1] == "8"
