"""Both sides of docs/trial_protocol.md: the page's examples, and real ranks on Gloo."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from autotune.executors.rank_process import RankCommand, end_all
from autotune.executors.rank_starter import RankStarter
from autotune.model import (
    DeviceKind,
    MeasurementPlan,
    ShardingStrategy,
    TrainingSettings,
    TrialSpec,
    decode,
    encode,
)
from autotune.model.protocol import (
    Answer,
    Failed,
    FailureKind,
    Finished,
    Following,
    Inspect,
    Message,
    Progress,
    Ready,
    Started,
    Verdict,
    WindowDone,
    from_line,
    to_line,
)

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/trial_protocol.md").read_text()
PLAN = MeasurementPlan(
    min_warmup_steps=2, max_warmup_steps=2, windows=4, window_s=0.05, max_steps_per_window=3
)
GO, STOP = to_line(Answer(verdict=Verdict.GO)), to_line(Answer(verdict=Verdict.STOP))
PATIENCE_S = 60


def spec(**changes: object) -> TrialSpec:
    fields = {
        "trial_id": "t",
        "workload": "tiny",
        "settings": TrainingSettings(micro_batch=2),
        "device": DeviceKind.CPU,
        "plan": PLAN,
        "collective_timeout_s": 20.0,
    }
    return TrialSpec(**{**fields, **changes})  # type: ignore[arg-type]


class LaunchedRank:
    """A real rank and the launcher's end of its channel."""

    def __init__(self, starter: RankStarter, command: RankCommand) -> None:
        ours, theirs = socket.socketpair()
        ours.settimeout(PATIENCE_S)
        self.channel = ours
        self.told: list[int] = []
        self.lines = ours.makefile("rb")
        with theirs:
            channel = {"AUTOTUNE_CHANNEL_FD": str(theirs.fileno())}
            command = replace(
                command,
                environment={**command.environment, **channel},
                descriptors=(theirs.fileno(), *command.descriptors),
            )
            self.process = starter.start(command, Event())

    def receive(self) -> Message | None:
        """The next message that is no mere sign of life; those are in `told`."""
        while line := self.lines.readline():
            message = from_line(line)
            if not isinstance(message, Progress):
                return message
            self.told.append(message.steps)
        return None

    def end(self) -> tuple[int, str]:
        """Its exit status and its log."""
        deadline = time.monotonic() + PATIENCE_S
        while (status := self.process.exit_status()) is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return status, self.process.log_path.read_text()

    def close(self) -> None:
        self.lines.close()
        self.channel.close()


@pytest.fixture(scope="module")
def warm() -> Iterator[RankStarter]:
    """Forks ranks, for all tests in which it doesn't matter how they were started."""
    starter = RankStarter()
    yield starter
    starter.close()


def inherited() -> dict[str, str]:
    """The same for all tests: another environment is another process to fork from."""
    return {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"}


@contextmanager
def launched(
    starter: RankStarter,
    directory: Path,
    *specs: TrialSpec,
    environment: dict[str, str] | None = None,
) -> Iterator[list[LaunchedRank]]:
    """A trial with one rank for each spec; they are all the same unless it is to fail."""
    ranks: list[LaunchedRank] = []
    with socket.create_server(("127.0.0.1", 0)) as store:
        try:
            for number, each in enumerate(specs):
                path = directory / f"spec{number}.json"
                path.write_text(json.dumps(encode(each)))
                variables = {
                    **inherited(),
                    **each.environment,
                    "RANK": str(number),
                    "WORLD_SIZE": str(len(specs)),
                    "LOCAL_RANK": str(number),
                    "LOCAL_WORLD_SIZE": str(len(specs)),
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(store.getsockname()[1]),
                    "OMP_NUM_THREADS": "1",
                    **({"AUTOTUNE_STORE_FD": str(store.fileno())} if number == 0 else {}),
                    **(environment or {}),
                }
                command = RankCommand(
                    rank=number,
                    arguments=[sys.executable, "-m", "autotune.trainers.rank", str(path)],
                    environment=variables,
                    log_path=directory / f"rank{number}.log",
                    descriptors=(store.fileno(),),
                )
                ranks.append(LaunchedRank(starter, command))
            yield ranks
        finally:
            end_all([rank.process for rank in ranks], term_s=0.0)
            for rank in ranks:
                rank.close()


def expect_failed(message: Message | None) -> Failed:
    assert isinstance(message, Failed), message
    return message


def test_the_pages_transcripts_are_messages() -> None:
    blocks = re.findall(r"```transcript\n(.*?)```", PAGE, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    messages = [from_line(re.sub(r"^rank \d+ [<>] ", "", line).encode()) for line in lines]
    assert {type(m) for m in messages} == {
        Started, Progress, WindowDone, Answer, Finished, Failed, Inspect, Ready, Following,
    }  # fmt: skip
    for line, message in zip(lines, messages, strict=True):
        assert (" < " in line) == isinstance(message, Answer | Inspect | Following)


def test_the_pages_spec_is_a_trial_and_shows_every_field() -> None:
    (block,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    written = json.loads(block)
    whole = encode(decode(TrialSpec, written))
    settings, shown = whole.pop("settings"), written.pop("settings")
    assert whole == written
    assert shown.items() <= settings.items()


def test_the_page_explains_every_kind_of_failure() -> None:
    for kind in FailureKind:
        assert f"| `{kind}` |" in PAGE


def test_two_ranks_stop_together_after_window_2(tmp_path: Path) -> None:
    """In fresh interpreters, without any other part of this package around them."""
    settings = TrainingSettings(
        strategy=ShardingStrategy.FSDP_FULL, micro_batch=2, accumulation_steps=2,
        reshard_after_forward=True,
    )  # fmt: skip
    trial = spec(settings=settings, environment={"GLOO_SOCKET_IFNAME": "lo"})
    with launched(RankStarter(cold=True), tmp_path, trial, trial) as (first, second):
        started = [first.receive(), second.receive()]
        assert [(s.rank, s.pid) for s in started if isinstance(s, Started)] == [
            (0, first.process.pid),
            (1, second.process.pid),
        ]
        windows = []
        for answer in (GO, STOP):
            message = first.receive()
            assert isinstance(message, WindowDone)
            windows.append(message.window)
            first.channel.sendall(answer)
        finished = first.receive()
        assert isinstance(finished, Finished)
        assert first.receive() is None
        assert second.receive() is None
        assert (first.end()[0], second.end()[0]) == (0, 0)
    measurement = finished.measurement
    assert list(measurement.windows) == windows
    assert (measurement.warmup_steps, measurement.settled) == (2, False)
    steps = 2 + sum(window.steps for window in windows)
    assert len(measurement.losses) == len(measurement.gradient_norms) == steps
    assert all(window.samples == window.steps * settings.global_batch(2) for window in windows)
    assert len(measurement.peak_memory_bytes) == 2
    assert measurement.losses[-1] < measurement.losses[0]
    assert 0 < measurement.build_s < PATIENCE_S
    effective = dict(measurement.effective)
    for name in ("strategy", "micro_batch", "accumulation_steps", "reshard_after_forward"):
        assert effective[name] == encode(getattr(settings, name))
    assert effective["fsdp_modules"] == 3
    assert effective["env.GLOO_SOCKET_IFNAME"] == "lo"


def test_a_line_that_is_no_answer_fails_the_rank(warm: RankStarter, tmp_path: Path) -> None:
    with launched(warm, tmp_path, spec()) as (rank,):
        rank.channel.sendall(b'{"v": 1, "type": "answer", "verdict": "perhaps"}\n')
        assert isinstance(rank.receive(), Started)
        assert isinstance(rank.receive(), WindowDone)
        failure = expect_failed(rank.receive())
        assert (failure.kind, failure.exception) == (FailureKind.ERROR, "ProtocolError")
        code, text = rank.end()
    assert code == 1
    assert "ProtocolError" in text


def test_ranks_with_different_settings_all_say_so(warm: RankStarter, tmp_path: Path) -> None:
    with launched(warm, tmp_path, spec(), spec(seed=1)) as ranks:
        for number, rank in enumerate(ranks):
            failure = expect_failed(rank.receive())
            assert (failure.rank, failure.kind) == (number, FailureKind.ENVIRONMENT)
            assert (
                failure.message
                == "rank 1 differs from rank 0: spec.seed is 1 there and 0 on rank 0"
            )
            assert rank.end()[0] == 1


def test_a_variable_that_did_not_arrive_is_named(warm: RankStarter, tmp_path: Path) -> None:
    trial = spec(environment={"NCCL_BUFFSIZE": "8388608"})
    with launched(warm, tmp_path, trial, environment={"NCCL_BUFFSIZE": "1"}) as (rank,):
        failure = expect_failed(rank.receive())
    assert failure.kind is FailureKind.ENVIRONMENT
    assert "rank 0" in failure.message
    assert "NCCL_BUFFSIZE is '1' where the trial asks for '8388608'" in failure.message


def test_the_death_of_a_peer_is_told_as_collective(warm: RankStarter, tmp_path: Path) -> None:
    trial = spec(plan=MeasurementPlan(windows=1000, window_s=0.01))
    with launched(warm, tmp_path, trial, trial) as (first, second):
        assert isinstance(first.receive(), Started)
        assert isinstance(first.receive(), WindowDone)
        os.kill(second.process.pid, signal.SIGKILL)
        first.channel.sendall(GO)
        message = first.receive()
        while isinstance(message, WindowDone):
            first.channel.sendall(GO)
            message = first.receive()
        assert expect_failed(message).kind is FailureKind.COLLECTIVE
        assert first.end()[0] == 1


def test_ranks_end_with_their_launcher_and_when_told_to(warm: RankStarter, tmp_path: Path) -> None:
    trial = spec(plan=MeasurementPlan(windows=1000, window_s=60.0, max_steps_per_window=10**6))
    with launched(warm, tmp_path, trial, trial) as (first, second):
        assert isinstance(first.receive(), Started)
        assert isinstance(second.receive(), Started)
        os.kill(first.process.pid, signal.SIGUSR1)  # only shows where it is
        time.sleep(0.2)
        started = time.monotonic()
        os.kill(first.process.pid, signal.SIGTERM)
        second.channel.shutdown(socket.SHUT_RDWR)
        code, stacks = first.end()
        assert code == -signal.SIGTERM
        # It may see its peer's end before its launcher's.
        assert second.end()[0] in (1, 3)
        assert time.monotonic() - started < 5
    assert "most recent call first" in stacks


def test_a_rank_ends_when_its_launcher_closes_the_channel(
    warm: RankStarter, tmp_path: Path
) -> None:
    with launched(warm, tmp_path, spec()) as (rank,):
        assert isinstance(rank.receive(), Started)
        assert isinstance(rank.receive(), WindowDone)
        rank.channel.shutdown(socket.SHUT_RDWR)
        code, text = rank.end()
    assert code == 3, text
    assert "launcher is gone" in text


def test_the_age_of_a_forked_rank_counts_from_the_fork(warm: RankStarter, tmp_path: Path) -> None:
    warm.get_ready([sys.executable, "-m", "autotune.trainers.rank"], inherited(), Event())
    assert warm.parent is not None
    time.sleep(2.0)
    asked = time.monotonic()
    with launched(warm, tmp_path, spec()) as (rank,):
        assert isinstance(rank.receive(), Started)
        rank.channel.sendall(STOP)
        assert isinstance(rank.receive(), WindowDone)
        finished = rank.receive()
        assert isinstance(finished, Finished)
        passed = time.monotonic() - asked
        assert rank.end()[0] == 0
        assert rank.process.agent == warm.parent.pid
    # Counted from its parent's start, it would be two seconds more than what has passed since.
    assert finished.measurement.build_s < passed


def test_torchrun_starts_it_too_and_messages_go_to_stdout(tmp_path: Path) -> None:
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(encode(spec())))
    result = subprocess.run(
        [
            sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
            "-m", "autotune.trainers.rank", str(path),
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        timeout=PATIENCE_S,
        check=True,
    )  # fmt: skip
    kinds = [type(from_line(line)) for line in result.stdout.splitlines()]
    assert sorted(kind.__name__ for kind in kinds) == (
        ["Finished"]
        + ["Progress"] * PLAN.max_warmup_steps
        + ["Started"] * 2
        + ["WindowDone"] * PLAN.windows
    )
