"""Where the user's code lies on a node: in the driver's folder, or in a copy of it."""

from dataclasses import replace
from pathlib import Path

import pytest

from autotune.model import DeviceKind, Script, TrainingSettings, TrialSpec, UserWorkload
from autotune.model.user_workload import digest_of
from autotune.trainers.rendezvous import report

pytest.importorskip("ray", reason="Ray (the extra `ray`) is not installed")

from autotune.executors.ray.code import as_here, fault, spec_here


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """The driver's folder, with a script in it."""
    folder = tmp_path / "there"
    folder.mkdir()
    (folder / "train.py").write_text("pass\n")
    return folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The copy of it that Ray has unpacked on the node."""
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "train.py").write_text("pass\n")
    monkeypatch.chdir(folder)
    return folder


def own(folder: Path, program: str = "train.py") -> UserWorkload:
    script = Script(program=program, folder=str(folder))
    return UserWorkload(
        name="train.py#0", parameters=0, blocks=0, block="", module="", global_batch=None,
        folder=str(folder), file=str(folder / program), digest=digest_of(folder / program),
        script=script,
    )  # fmt: skip


def spec_of(workload: UserWorkload) -> TrialSpec:
    return TrialSpec(
        trial_id="t", workload=workload.name, workload_folder=workload.folder,
        script=workload.script, settings=TrainingSettings(micro_batch=1), device=DeviceKind.CPU,
    )  # fmt: skip


def test_a_folder_that_the_node_sees_is_taken(there: Path, here: Path) -> None:
    workload = own(there)
    assert as_here(workload) == workload
    assert spec_here(spec_of(workload), workload) == spec_of(workload)


@pytest.mark.parametrize("absolute", [False, True])
def test_where_it_is_not_seen_or_is_another_the_copy_is(
    there: Path, here: Path, absolute: bool
) -> None:
    workload = own(there, str(there / "train.py") if absolute else "train.py")
    (there / "train.py").write_text("another()\n")
    moved = as_here(workload)
    assert (moved.folder, moved.file) == (str(here), str(here / "train.py"))
    assert fault(moved) == ""
    spec = spec_here(spec_of(workload), moved)
    assert spec.workload_folder == str(here)
    assert spec.script is not None
    assert Path(spec.script.folder, spec.script.program) == here / "train.py"
    # Ranks compare what they are told: where the code lies on each node isn't part of it.
    assert report(spec, {}) == report(spec_of(workload), {})


def test_what_was_not_sent_is_named(there: Path, here: Path, tmp_path: Path) -> None:
    (here / "train.py").write_text("another()\n")
    workload = own(there)
    (there / "train.py").unlink()
    assert fault(as_here(workload)) == f"{here}/train.py has changed since the run began"
    elsewhere = replace(workload, file=str(tmp_path / "elsewhere.py"))
    assert "elsewhere.py isn't there: of the driver's files" in fault(as_here(elsewhere))


def test_an_installed_workload_is_the_nodes_own() -> None:
    installed = UserWorkload(
        name="pkg:build", parameters=0, blocks=0, block="", module="pkg", global_batch=1
    )
    assert as_here(installed) == installed
    assert fault(installed) == ""
