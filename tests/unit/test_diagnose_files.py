"""Which files are read for a diagnosis, and how much of them."""

import os
from pathlib import Path

import pytest

from autotune.cli import log_files
from autotune.cli.log_files import LEAST_BYTES, find, rank_of, read
from autotune.errors import FieldError


@pytest.mark.parametrize(
    ("path", "rank"),
    [
        ("rank-3.log", 3),
        ("run/trial/rank_12.txt", 12),
        ("RANK7.out", 7),
        ("logs/x/attempt_0/5/stderr.log", 5),
        ("logs/x/attempt_0/5x/stderr.log", None),
        ("logs/5/stderr.log", None),
        ("frank3.log", None),
        ("train.log", None),
    ],
)
def test_the_rank_in_a_name(path: str, rank: int | None) -> None:
    assert rank_of(Path(path)) == rank


def test_a_folder_gives_the_files_that_are_named_like_logs(tmp_path: Path) -> None:
    names = ["b/rank-0.log", "a.txt", "b/0/stderr", "slurm-1.out", "old.log.1", "weights.pt"]
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    (tmp_path / "dangling.log").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe.log")
    found = [str(path.relative_to(tmp_path)) for path in find([tmp_path])]
    assert found == ["a.txt", "old.log.1", "slurm-1.out", "b/rank-0.log", "b/0/stderr"]


@pytest.mark.parametrize("path", ["nowhere.log", "/dev/zero", ".", "x" * 5000])
def test_what_is_no_log_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(FieldError) as error:
        find([tmp_path / path])
    assert error.value.field == "LOG"


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_files, "MOST_FILES", 3)
    for number in range(4):
        (tmp_path / f"{number}.log").touch()
    with pytest.raises(FieldError, match="more than 3"):
        find([tmp_path])


def test_a_log_that_goes_away_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FieldError, match="can't be read: No such file"):
        list(read([tmp_path / "gone.log"]))


def test_both_ends_of_a_huge_log_are_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.log"
    path.write_bytes(b"".join(b"line %d\n" % number for number in range(1, 300_001)))
    names = [path, *[tmp_path / "small.log"] * 1000]
    (tmp_path / "small.log").write_text("x")
    log = next(iter(read(names)))
    (first, head), (later, tail) = log.parts
    assert (first, head[:7]) == (1, "line 1\n")
    assert tail.startswith(f"line {later}\n")
    assert tail.endswith("line 300000\n")
    assert len(head) + len(tail) <= LEAST_BYTES


def test_a_small_log_is_whole_and_never_fails_to_decode(tmp_path: Path) -> None:
    path = tmp_path / "rank-1.log"
    path.write_bytes(b"a\xff\xfe\0\r\nb")
    (log,) = read([path])
    assert log.parts == ((1, "a\ufffd\ufffd\0\r\nb"),)
    assert log.rank == 1
