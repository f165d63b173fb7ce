"""`autotune diagnose` as a user runs it."""

import json
import subprocess
import sys
from pathlib import Path

from tests import warm_command

MEMORY = "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
VICTIM = "[rank0]: RuntimeError: Connection closed by peer [127.0.0.1]:4"


def diagnose(*arguments: str, given: str = "") -> "subprocess.CompletedProcess[str]":
    done = warm_command.call(Path.cwd(), "diagnose", *arguments, given=given)
    assert "Traceback" not in done.stderr
    return done


def test_it_names_the_rank_the_line_and_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(f"step 1\n{VICTIM}\n\x1b[31m{MEMORY}\x1b[0m [bold]\n")
    done = diagnose(str(path))
    assert done.returncode == 0
    assert f"{path}:3: {MEMORY.removeprefix('[rank1]: ')} [bold]" in done.stdout
    rows = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert (rows["outcome"], rows["rank"], rows["victims"]) == ("out_of_memory", "1", "0")
    assert rows["next"].startswith("use a smaller micro-batch")


def test_json_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "rank-0.log").write_text(VICTIM)
    (tmp_path / "rank-1.log").write_text(MEMORY)
    done = diagnose(str(tmp_path), "--format", "json")
    found = json.loads(done.stdout)
    assert (found["outcome"], found["rank"], found["victims"]) == ("out_of_memory", 1, [0])
    assert (found["log"], found["line"]) == (str(tmp_path / "rank-1.log"), 1)


def test_the_line_is_shown_without_secrets() -> None:
    done = diagnose("-", given="RuntimeError: CUDA out of memory at https://ann:hunter2@host/x\n")
    assert "https://ann:***@host/x" in done.stdout
    assert "hunter2" not in done.stdout


def test_without_a_cause_the_exit_code_says_so() -> None:
    healthy = diagnose("-", given="step 1 loss 3.4\n")
    assert (healthy.returncode, healthy.stdout) == (3, "No known failure in 1 log.\n")
    assert healthy.stderr.startswith("hint: ")
    assert json.loads(diagnose("-", "--format", "json", given="").stdout) is None
    victims = diagnose("-", given=VICTIM)
    assert victims.returncode == 3
    assert "these logs show only victims" in victims.stdout


def test_what_can_not_be_read_is_a_usage_error(tmp_path: Path) -> None:
    done = diagnose(str(tmp_path / "nowhere.log"))
    assert done.returncode == 2
    assert "nowhere.log" in done.stderr
    assert done.stdout == ""
    closed = subprocess.run(
        ["/bin/sh", "-c", f"exec {sys.executable} -m autotune diagnose - <&-"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (closed.returncode, closed.stderr.count("\n")) == (2, 1)
