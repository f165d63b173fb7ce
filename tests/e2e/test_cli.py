"""The command as a user runs it: real processes, real trials, exit codes, files."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import yaml

from autotune.exporters.document import read
from autotune.model import Conclusion
from tests import warm_command

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
AUTOTUNE = [sys.executable, "-m", "autotune"]
SLOW = "knobs:\n  - name: accumulation_steps\n    choices: [{value: 1}, {value: 4}]\n"
"""A space whose one candidate is so much slower than the defaults that nothing is confirmed."""


class Home:
    """A data folder and a working folder of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "slow.yaml").write_text(SLOW)
        self.environment = {**os.environ, "AUTOTUNE_HOME": str(path / "data")}

    def start(self, *arguments: str, command: Sequence[str]) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*command, *arguments],
            cwd=self.path,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def start_warm(self, *arguments: str) -> AbstractContextManager[warm_command.Started]:
        """The same, but forked from a process that has imported it."""
        return warm_command.start(self.path, *arguments, environment=self.environment)

    def call(self, *arguments: str, expect: int = 0) -> "subprocess.CompletedProcess[str]":
        done = warm_command.call(self.path, *arguments, environment=self.environment)
        assert done.returncode == expect, done.stderr
        assert "Traceback" not in done.stderr
        return done


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with one finished run of a few trials."""
    home = Home(tmp_path_factory.mktemp("finished"))
    home.call(
        "run", "--instance", "local", "--workload", "tiny", "--nproc", "2", "--global-batch", "8",
        "--only", "strategy", "--strategy", "grid", "--trials", "2", "--window", "0.05s",
        "--seed", "1", "--output", "best.yaml",
    )  # fmt: skip
    return home


def test_a_run_tries_ddp_and_fsdp_and_stores_them(finished: Home) -> None:
    shown = json.loads(finished.call("show", "latest", "--format", "json").stdout)
    layouts = [trial["settings"]["parallelism"] for trial in shown["trials"]]
    strategies = {layout["strategy"] for layout in layouts}
    assert strategies == {"ddp", "fsdp_full", "fsdp_grad_op"}
    assert {trial["outcome"] for trial in shown["trials"]} <= {"completed", "pruned"}
    for trial, layout in zip(shown["trials"], layouts, strict=True):
        assert trial["measurement"]["effective"]["strategy"] == layout["strategy"]
        losses = trial["measurement"]["losses"]
        assert sum(losses[-3:]) < sum(losses[:3])
    table = finished.call("show", "latest").stdout
    assert "fsdp_full" in table
    assert "samples/s" in table


def test_the_saved_file_and_the_store_agree(finished: Home) -> None:
    saved = read(finished.path / "best.yaml")
    assert saved.conclusion in (Conclusion.IMPROVED, Conclusion.KEEP_DEFAULTS)
    printed = finished.call("best", "--instance", "local", "--workload", "tiny").stdout
    assert printed == (finished.path / "best.yaml").read_text()
    listed = json.loads(finished.call("runs", "--format", "json").stdout)
    assert [run["run"] for run in listed] == [saved.run_id]
    assert listed[0]["status"] == "finished"


def test_json_has_the_names_of_the_yaml(finished: Home) -> None:
    document = yaml.safe_load((finished.path / "best.yaml").read_text())
    assert json.loads(finished.call("best", "--format", "json").stdout) == document
    study = json.loads(finished.call("show", "latest", "--format", "json").stdout)["study"]
    (listed,) = json.loads(finished.call("runs", "--format", "json").stdout)
    for form in (study, listed):
        assert {form[name] == document[name] for name in ("run", "for", "conclusion")} == {True}
    assert document["evidence"]["only"] == ["strategy"]


def test_the_answer_says_how_its_study_was_narrowed(finished: Home) -> None:
    assert "only strategy was searched" in finished.call("best").stdout.partition("schema")[0]
    for command in (["show", "latest"], ["runs"]):
        assert "only strategy was searched" in finished.call(*command).stdout


def test_exports_are_usable(finished: Home) -> None:
    text = finished.call("export", "best.yaml", "--to", "env").stdout
    (finished.path / "best.env").write_text(text)
    subprocess.run(["sh", "-ec", ". ./best.env"], cwd=finished.path, check=True)
    torchrun = finished.call("export", "best.yaml", "--to", "torchrun").stdout
    assert "--nproc-per-node" in torchrun
    subprocess.run(["bash", "-n"], input=torchrun, text=True, check=True)


def test_a_finished_run_is_not_resumed(finished: Home) -> None:
    result = finished.call("resume", "latest", expect=2)
    assert "has finished" in result.stderr


def processes_of(parent: int) -> list[int]:
    """The pids of living processes that `parent` has started: the warm parent, then its ranks."""
    found = [parent]
    for process in found:
        for task in Path(f"/proc/{process}/task").glob("*/children"):
            try:
                found += map(int, task.read_text().split())
            except OSError:
                continue
    return found[1:]


def wait_for_ranks(parent: int, timeout_s: float = 180) -> list[int]:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        # The process they are forked from, the one that watches over their end, and the ranks.
        if len(pids := processes_of(parent)) == 4:
            return pids
        time.sleep(0.05)
    raise AssertionError("no ranks were started")


def is_alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in (Path("/proc") / str(pid) / "status").read_text()
    except OSError:
        return False


def wait_for_the_end_of(pids: Sequence[int]) -> None:
    deadline = time.monotonic() + 10
    while any(is_alive(pid) for pid in pids):
        assert time.monotonic() < deadline, "something outlives its controller"
        time.sleep(0.1)


RUN = (
    "run", "--instance", "local", "--workload", "tiny", "--nproc", "2", "--global-batch", "8",
    "--space", "slow.yaml", "--only", "accumulation_steps", "--set", "strategy=ddp",
    "--trials", "1", "--window", "0.05s", "--budget", "5m", "--output", "best.yaml",
)  # fmt: skip


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGINT,
        pytest.param(signal.SIGTERM, marks=pytest.mark.long),
        pytest.param(signal.SIGHUP, marks=pytest.mark.long),
    ],
)
def test_an_interrupted_run_leaves_nothing_and_resumes(home: Home, number: signal.Signals) -> None:
    with home.start_warm(*RUN) as process:
        process.wait_for("[  0]")
        pids = wait_for_ranks(process.pid)
        process.send_signal(number)
        done = process.wait(60)
    rest = done.stderr
    assert done.returncode == 130, rest
    assert not any(is_alive(pid) for pid in pids)
    assert "resume with: autotune resume" in rest
    assert read(home.path / "best.yaml").conclusion is Conclusion.UNCONFIRMED
    if number is not signal.SIGINT:
        return
    command = rest.split("resume with: autotune ")[1].splitlines()[0]
    home.call(*shlex.split(command))
    shown = json.loads(home.call("show", "latest", "--format", "json").stdout)
    assert shown["study"]["status"] == "finished"
    outcomes = [trial["outcome"] for trial in shown["trials"]]
    assert outcomes.count("cancelled") == 1
    assert read(home.path / "best.yaml").conclusion is not Conclusion.UNCONFIRMED


def test_a_second_interrupt_ends_at_once_and_still_says_how_to_resume(home: Home) -> None:
    """The one controller is stopped between the two, so that both arrive whatever it does."""
    url = f"sqlite:///{home.path}/my runs.db"
    with home.start_warm(*RUN, "--storage", url) as process:
        pids = wait_for_ranks(process.pid)
        for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
            process.send_signal(number)
        done = process.wait(60)
    rest = done.stderr
    assert done.returncode == 130, rest
    assert "Traceback" not in rest
    assert "at once" in rest
    wait_for_the_end_of(pids)
    arguments = shlex.split(rest.split("resume with: autotune ")[1].splitlines()[0])
    assert arguments[0] == "resume"
    shown = home.call("show", arguments[1], *arguments[2:]).stdout
    assert "stale" in shown


def test_a_killed_run_leaves_nothing_and_resumes(home: Home) -> None:
    with home.start_warm(*RUN) as process:
        pids = wait_for_ranks(process.pid)
        (listed,) = json.loads(home.call("runs", "--format", "json").stdout)
        assert listed["status"] == "running"
        process.send_signal(signal.SIGKILL)
        process.wait(60)
    wait_for_the_end_of(pids)
    (listed,) = json.loads(home.call("runs", "--format", "json").stdout)
    assert listed["status"] == "stale"
    assert "stale" in home.call("show", "latest").stdout
    home.call("resume", "latest")
    (listed,) = json.loads(home.call("runs", "--format", "json").stdout)
    assert listed["status"] == "finished"


def test_a_run_has_one_controller(home: Home) -> None:
    with home.start_warm(*RUN) as process:
        wait_for_ranks(process.pid)
        refused = home.call("resume", "latest", expect=2)
        process.send_signal(signal.SIGINT)
        process.wait(60)
    assert "is being run by another process" in refused.stderr


def test_two_studies_do_not_measure_each_other(home: Home) -> None:
    with home.start_warm(*RUN) as process:
        wait_for_ranks(process.pid)
        process.send_signal(signal.SIGSTOP)  # it would have ended before the others have looked
        try:
            refused = home.call(*RUN, expect=2)
            (only,) = json.loads(home.call("runs", "--format", "json").stdout)
            shared = interrupted_after_one_trial(home, "--share-machine", "--output", "shared.yaml")
        finally:
            process.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGINT)
        process.wait(60)
    assert f"(pid {process.pid})" in refused.stderr
    assert "--share-machine" in refused.stderr
    assert only["run"] in refused.stderr
    name = f"run {only['run']} (pid {process.pid})"
    assert f"shared     the machine, with {name}" in shared
    assert read(home.path / "shared.yaml").evidence.shared_with == (name,)


def interrupted_after_one_trial(home: Home, *arguments: str) -> str:
    """What a run prints that is interrupted when its first trial has ended."""
    with home.start_warm(*RUN, *arguments) as process:
        process.wait_for("[  0]")
        process.send_signal(signal.SIGINT)
        done = process.wait(60)
    assert done.returncode == 130, done.stderr
    return done.stdout


def test_an_interrupt_while_modules_are_imported_is_no_traceback(home: Home) -> None:
    """A module in the place of one that the command line imports is where Ctrl-C comes."""
    (home.path / "typer.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    entry = re.search(r'^autotune = "([\w.]+):(\w+)"', PYPROJECT.read_text(), re.MULTILINE)
    assert entry
    start = f"import sys; from {entry[1]} import {entry[2]}; sys.exit({entry[2]}())"
    for command in ([*AUTOTUNE, "--version"], [sys.executable, "-c", start, "--version"]):
        result = subprocess.run(
            command, cwd=home.path, env={**home.environment, "PYTHONPATH": path_with(home.path)},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert (result.returncode, result.stderr) == (130, "interrupted\n")


def path_with(folder: Path) -> str:
    return os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])


def test_an_interrupted_run_leaves_a_confirmed_file_alone(home: Home, finished: Home) -> None:
    confirmed = (finished.path / "best.yaml").read_text()
    (home.path / "best.yaml").write_text(confirmed)
    interrupted_after_one_trial(home)
    assert (home.path / "best.yaml").read_text() == confirmed
    aside = read(home.path / "best.unconfirmed.yaml")
    assert aside.conclusion is Conclusion.UNCONFIRMED


def test_modules_in_the_users_folder_do_not_take_the_place_of_others(home: Home) -> None:
    """All processes are fresh ones here, and end as those of a run that was forked do."""
    for name in ("torch.py", "json.py", "optuna.py"):
        (home.path / name).write_text("raise SystemExit('shadowed')\n")
    with home.start(*RUN, command=[sys.executable, "-P", "-m", "autotune"]) as process:
        assert process.stderr is not None
        seen = ""
        while "[  0]" not in seen:
            seen += (line := process.stderr.readline())
            assert line, seen
        pids = wait_for_ranks(process.pid)
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=60)
    assert process.returncode == 130, rest
    assert not any(is_alive(pid) for pid in pids)


@pytest.mark.parametrize("command", [["workloads"], ["--version"], ["runs", "--format", "json"]])
def test_output_that_can_not_be_written_is_an_error(home: Home, command: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [*AUTOTUNE, *command], cwd=home.path, env=home.environment,
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert result.returncode == 1
    assert "No space left" in result.stderr
    assert "Traceback" not in result.stderr


BAD: Sequence[tuple[list[str], list[str]]] = [
    (["--instance", "p4d.24xlarge"], ["p4d.24xlarge", "8 x A100", "no GPU", "hint:"]),
    (["--instance", "p4d.24xlargee"], ["--instance", "did you mean 'p4d.24xlarge'"]),
    (["--instance", "local", "--workload", "tinny"], ["workload", "did you mean 'tiny'"]),
    (["--instance", "local", "--set", "strateg=ddp"], ["--set", "did you mean 'strategy'"]),
    (["--instance", "local", "--set", "strategy=zero"], ["strategy", "'zero'", "fsdp_full"]),
    (["--instance", "local", "--set", "strategy"], ["--set", "KNOB=VALUE"]),
    (["--instance", "local", "--only", "buckets"], ["--only", "bucket_cap_mb"]),
    (["--instance", "local", "--nproc", "4096"], ["--nproc", "4096", "usable cores"]),
    (["--instance", "local", "--nproc", "0"], ["--nproc", "0"]),
    (["--instance", "local", "--nproc", "2", "--global-batch", "33"], ["33", "multiple of the 2"]),
    (["--instance", "local", "--global-batch", "0"], ["--global-batch", "0"]),
    (["--instance", "local", "--global-batch", "-2"], ["--global-batch: -2 has to be at least 1"]),
    (["--instance", "local", "--output", "new/"], ["--output", "'new/' is a folder", "hint:"]),
    (["--instance", "local", "--budget", "2s"], ["--budget", "too short", "hint:"]),
    (["--instance", "local", "--budget", "soon"], ["--budget", "'soon'", "30m"]),
    (["--instance", "local", "--global-batch", "9" * 30], ["--global-batch"]),
    (["--instance", "local", "--seed", "9" * 30], ["--seed"]),
    (["--instance", "local", "--set", f"accumulation_steps={'9' * 5000}"], ["--set", "256"]),
    (["--instance", "local", "--only", ","], ["--only", "names nothing"]),
    (["--instance", "local", "--trials", "0"], ["--trials"]),
    (["--instance", "local", "--trials", "many"], ["--trials"]),
    (["--instance", "local", "--storage", "mysql://x/y"], ["--storage", "postgresql", "sqlite"]),
    (["--instance", "local", "--storage", "nonsense"], ["--storage", "nonsense"]),
    (["--instance", "local", "--output", "/proc/no/best.yaml"], ["/proc/no"]),
    (["--instance", "local", "--format", "xml"], ["--format", "json"]),
    ([], ["--instance"]),
]


@pytest.mark.parametrize(("arguments", "words"), BAD, ids=[" ".join(a)[:60] for a, _ in BAD])
def test_bad_input_is_refused_before_any_trial(
    home: Home, arguments: list[str], words: list[str]
) -> None:
    result = home.call("run", *arguments, expect=2)
    for word in words:
        assert word in " ".join(result.stderr.split()), result.stderr
    assert result.stdout == ""
    assert not list(home.path.rglob("trial-*")), "a trial was launched"


def test_what_is_not_there_is_refused(home: Home) -> None:
    assert "no runs" in home.call("show", "latest", expect=2).stderr
    assert "no stored answer" in home.call("best", "--workload", "tiny", expect=2).stderr
    assert "none.yaml" in home.call("export", "none.yaml", "--to", "env", expect=2).stderr
    (home.path / "bad.yaml").write_text("schema: autotune/v9\n")
    result = home.call("export", "bad.yaml", "--to", "env", expect=2)
    assert "bad.yaml:1" in result.stderr
    assert "autotune/v1" in result.stderr


@pytest.mark.parametrize("command", ["knobs", "instances", "workloads"])
def test_catalogues_are_printed_for_people_and_programs(home: Home, command: str) -> None:
    names = {"knobs": "strategy", "instances": "p4d.24xlarge", "workloads": "bert-large"}
    assert names[command] in home.call(command).stdout
    rows = json.loads(home.call(command, "--format", "json").stdout)
    assert names[command] in [row["name"] for row in rows]


def test_why_a_knob_is_left_out_is_printed(home: Home) -> None:
    table = home.call("knobs", "--instance", "local", "--nproc", "2").stdout
    assert "needs device cuda" in table
