"""Trials at once on a real cluster of three nodes, all on this machine; the ranks are stand-ins."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from autotune.errors import FieldError
from autotune.executors.base import Launch, LaunchEnd
from autotune.exporters.document import read
from autotune.loop.observer import Observer
from autotune.loop.study import StudyEnd, StudyRunner
from autotune.model import Outcome, Phase, Study, StudySpec, StudyStatus, Target, Trial, Window
from autotune.model.protocol import Verdict
from autotune.space.catalogue import load_knobs
from autotune.space.facts import Facts
from autotune.space.space import Space
from autotune.storage import MemoryStore
from autotune.strategies import build_strategy
from tests.ray_command import STUDY
from tests.ray_hosts import QUIET, environment

pytest.importorskip("ray", reason="Ray (the extra `ray`) is not installed")
os.environ.update(QUIET)

from ray.cluster_utils import Cluster

from autotune.executors.ray.actor import AgentOptions
from autotune.executors.ray.executor import RayExecutor
from tests.ray_driver import COMMAND, launch

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning")
NODE: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
PATIENCE_S = 90.0
SEARCHED = 4


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    head = {"num_cpus": 0, "object_store_memory": 80 * 2**20, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(2):
            made.add_node(**NODE)
        yield made
    finally:
        made.shutdown()


def lanes(cluster: Any, at_once: int | None, **variables: str) -> RayExecutor:
    """Of one node each, whose ranks do as `variables` say."""
    options = AgentOptions(cold=True, rank_command=COMMAND, term_s=0.3, variables=variables)
    return RayExecutor(
        1, address=cluster.address, options=options, at_once=at_once, replace_limit_s=2
    )


class Watch(Observer):
    """Keeps what is said; cancels after so many trials, or so many of the search."""

    def __init__(self, stop_after: int) -> None:
        self.cancel = Event()
        self.said: list[str] = []
        self._left = stop_after
        self._searched = 0

    def noticed(self, notice: str) -> None:
        self.said.append(notice)

    def trial_ended(self, trial: Trial) -> None:
        self._left -= 1
        self._searched += trial.phase is Phase.SEARCH
        if self._left == 0 or self._searched == SEARCHED:
            self.cancel.set()


def study(
    executor: RayExecutor, folder: Path, store: MemoryStore, stop_after: int = 1000
) -> tuple[StudyEnd, Watch]:
    """Run or resume a study called "r" in `store`, to the end of its search."""
    target = Target(
        instance=executor.machine().instance,
        nodes=1,
        ranks_per_node=1,
        workload="tiny",
        global_batch=32,
    )
    now = datetime.now(UTC)
    known = store.study("r") or Study(
        run_id="r",
        spec=StudySpec(target=target, max_trials=SEARCHED, parallel_trials=2),
        machine=executor.machine(),
        status=StudyStatus.RUNNING,
        created_at=now,
        updated_at=now,
    )
    store.add_study(known)
    space = Space(load_knobs(), Facts.of(executor.machine(), target))
    watch = Watch(stop_after)
    end = StudyRunner(
        study=known,
        space=space,
        strategy=build_strategy("staged", space, 0),
        executor=executor,
        store=store,
        folder=folder,
        observer=watch,
        cancel=watch.cancel,
    ).run()
    return end, watch


def at_once(folder: Path) -> set[str]:
    """Ids of the trials that ran beside others, by what their ranks noted."""
    times = {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}
    spans = {trial: span for trial, span in times.items() if span}
    return {
        one
        for one, (begin, end) in spans.items()
        for other, (its_begin, its_end) in spans.items()
        if one != other and begin < its_end and its_begin < end
    }


def test_a_study_searches_on_both_lanes_and_is_resumed(cluster: Any, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    store = MemoryStore()
    variables = {"FAKE_BEHAVIOUR": "complete_and_note", "FAKE_FOLDER": str(notes)}
    with lanes(cluster, None, **variables) as executor:
        assert (executor.at_once, len({facts.pid for facts in executor.facts})) == (2, 2)
        end, watch = study(executor, tmp_path / "1", store, stop_after=4)
        before = list(store.trials("r"))
        assert end.interrupted
        assert len(watch.said) == 1
        study(executor, tmp_path / "2", store)
    trials = list(store.trials("r"))
    assert trials[: len(before)] == before
    assert [trial.number for trial in trials] == list(range(len(trials)))
    searched = [t for t in trials if t.phase is Phase.SEARCH and t.outcome.has_worked]
    assert len({trial.candidate for trial in searched}) == len(searched)
    ran = {name.removeprefix("r-") for name in at_once(notes)}
    search = {name for name in ran if "beside" not in name}
    assert search, "no two trials of the search ran at once"
    # Only those have their place among those under way in their names.
    assert all(name.count("-") == 1 for name in search)


def test_lanes_that_disturb_each_other_are_switched_off(cluster: Any, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    variables = {
        "FAKE_BEHAVIOUR": "complete_and_note",
        "FAKE_FOLDER": str(notes),
        "FAKE_DISTURBS": "1",
    }
    with lanes(cluster, 2, **variables) as executor:
        _, watch = study(executor, tmp_path, MemoryStore(), stop_after=6)
        assert executor.at_once == 1
    assert re.search(r"16\.0 samples/s alone and 8\.0 beside itself \(-50\.0 %\)", watch.said[1])
    assert all("beside" in name for name in at_once(notes))


def test_more_lanes_than_there_are_nodes_for_are_refused(cluster: Any) -> None:
    with pytest.raises(FieldError, match=r"--parallel-trials: 3 needs 3 nodes, 1 for each, and th"):
        lanes(cluster, 3)


def test_the_command_runs_trials_on_two_nodes(cluster: Any, tmp_path: Path) -> None:
    """Between hosts of their own, and by a client, it does so in tests/e2e/test_ray.py."""
    words = ["run", "--executor", "ray", "--address", cluster.address, "--nodes", "2", *STUDY]
    with subprocess.Popen(
        [sys.executable, "-m", "autotune", *words, "--output", "best.yaml"],
        env=environment(AUTOTUNE_HOME=str(tmp_path / "data")), cwd=tmp_path,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        said = ""
        while "[  0]" not in said:
            said += (line := process.stderr.readline())
            assert line, said
        process.send_signal(signal.SIGINT)
        said += process.communicate(timeout=PATIENCE_S)[1]
    assert process.returncode == 130, said
    assert "an all-reduce of 4 MiB between the nodes takes" in said
    assert f"resume latest --executor ray --address {cluster.address}" in said.replace(
        read(tmp_path / "best.yaml").run_id, "latest"
    )
    assert read(tmp_path / "best.yaml").target.nodes == 2


@pytest.mark.long
def test_a_lane_that_loses_its_node_leaves_the_others_alone(cluster: Any, tmp_path: Path) -> None:
    ends: dict[str, LaunchEnd] = {}
    begun = [Event(), Event()]
    cancel = Event()

    def run(executor: RayExecutor, lane: int) -> None:
        def on_window(_window: Window) -> Verdict:
            begun[lane].set()
            return Verdict.GO

        trial = one_node("windows_forever", tmp_path / str(lane))
        end = executor.run(trial, on_window, cancel)
        ends[end.outcome.value] = end

    with lanes(cluster, 2) as executor:
        threads = [Thread(target=run, args=(executor, lane), daemon=True) for lane in range(2)]
        for thread in threads:
            thread.start()
        assert all(one.wait(PATIENCE_S) for one in begun)
        lost = cluster.worker_nodes.copy().pop()
        os.kill(lost.all_processes["raylet"][0].process.pid, signal.SIGKILL)
        # One has ended, and the other goes on.
        deadline = time.monotonic() + PATIENCE_S
        while not ends:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert set(ends) == {"preempted"}
        cluster.remove_node(lost, allow_graceful=False)
        trial = one_node("complete", tmp_path / "again")
        end = executor.run(trial, lambda _: Verdict.GO, Event())
        assert end.outcome is Outcome.PLACEMENT
        assert end.reason.endswith("; the study goes on with 1 group of nodes")
        assert executor.at_once == 1
        cancel.set()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert set(ends) == {"preempted", "cancelled"}
        assert executor.run(trial, lambda _: Verdict.GO, Event()).outcome is Outcome.COMPLETED


def one_node(behaviour: str, directory: Path) -> Launch:
    return replace(launch(behaviour, directory), nodes=1)
