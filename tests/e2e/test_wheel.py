"""The wheel and the sdist, as somebody who has no checkout gets them."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import autotune

ROOT = Path(__file__).parents[2]
FOLDERS = ("autotune", "storage", "trainers", "search_spaces")
FILES = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md")


def run(*command: str, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        command, cwd=cwd, env=os.environ | environment,
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def copy_of_the_tree(folder: Path) -> Path:
    """The files that a release is built from, links kept, so that a build leaves no trace here."""
    ignore = shutil.ignore_patterns("__pycache__")
    folder.mkdir()
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignore)
    for name in FILES:
        shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was built from the tree."""
    folder = tmp_path_factory.mktemp("built")
    tree = copy_of_the_tree(folder / "tree")
    run(
        sys.executable, "-m", "build", "--no-isolation", "--sdist", "--wheel",
        "--outdir", str(folder / "dist"), cwd=tree,
    )  # fmt: skip
    return folder / "dist"


def expected_files() -> set[str]:
    """Everything under the package, links followed."""
    found = set()
    for folder, _, names in os.walk(ROOT / "autotune", followlinks=True):
        if "__pycache__" not in folder:
            found |= {str((Path(folder) / name).relative_to(ROOT)) for name in names}
    return {name for name in found if not name.endswith((".pyc", "~"))}


def wheel(folder: Path) -> Path:
    (found,) = folder.glob("autotune_train-*-py3-none-any.whl")
    return found


def test_the_wheel_holds_the_package_and_nothing_else(built: Path) -> None:
    with zipfile.ZipFile(wheel(built)) as archive:
        files = {name for name in archive.namelist() if ".dist-info/" not in name}
        assert not any(
            (entry.external_attr >> 16) & 0o170000 == 0o120000 for entry in archive.infolist()
        )
    expected = expected_files()
    assert "autotune/py.typed" in expected
    assert "autotune/storage/base.py" in expected
    assert any(name.startswith("autotune/search_spaces/") for name in expected)
    assert files == expected


def test_the_sdist_holds_real_files_once(built: Path) -> None:
    (sdist,) = built.glob("autotune_train-*.tar.gz")
    with tarfile.open(sdist) as archive:
        members = archive.getmembers()
    prefix = f"autotune_train-{autotune.__version__}/"
    names = [member.name.removeprefix(prefix) for member in members]
    assert all(member.isfile() for member in members)
    assert len(names) == len(set(names))
    assert expected_files() | {"LICENSE", "README.md", "pyproject.toml"} <= set(names)


def test_the_installed_wheel_works_outside_the_checkout(built: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    run(
        sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index",
        "--target", str(site), str(wheel(built)), cwd=tmp_path,
    )  # fmt: skip
    program = (
        "import autotune, autotune.storage, autotune.trainers, autotune.exporters;"
        "from importlib.resources import files;"
        "from importlib.metadata import version;"
        "assert files('autotune').joinpath('search_spaces').is_dir();"
        "print(version('autotune-train'), autotune.__file__, autotune.storage.__file__)"
    )
    # -S would lose the dependencies; PYTHONPATH comes before the editable install of the checkout.
    seen = run(sys.executable, "-c", program, cwd=tmp_path, PYTHONPATH=str(site)).split()
    assert seen == [
        autotune.__version__,
        str(site / "autotune" / "__init__.py"),
        str(site / "autotune" / "storage" / "__init__.py"),
    ]


def test_a_wheel_from_the_sdist_is_the_same(built: Path, tmp_path: Path) -> None:
    (sdist,) = built.glob("autotune_train-*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (tree,) = tmp_path.iterdir()
    run(
        sys.executable, "-m", "build", "--no-isolation", "--wheel",
        "--outdir", str(tmp_path / "dist"), cwd=tree,
    )  # fmt: skip
    with zipfile.ZipFile(wheel(tmp_path / "dist")) as ours, zipfile.ZipFile(wheel(built)) as theirs:
        assert sorted(ours.namelist()) == sorted(theirs.namelist())
