"""Between two hosts on a slow link, settings matter by the order that arithmetic says."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from autotune.model import (
    DeviceKind,
    Measurement,
    MeasurementPlan,
    ShardingStrategy,
    TrainingSettings,
    TrialSpec,
    encode,
)
from autotune.model.protocol import Finished, from_line
from tests import netns

pytestmark = pytest.mark.netns
PORT = "29400"
PATIENCE_S = 100


@pytest.fixture(scope="module")
def hosts() -> Iterator[list[netns.Host]]:
    reason = netns.why_not()
    if reason:
        pytest.skip(reason)
    with netns.hosts(2, rate="200mbit") as made:
        yield made


def run_trial(hosts: list[netns.Host], settings: TrainingSettings, directory: Path) -> Measurement:
    """One rank on each host, started by hand; rank 0 writes its messages to stdout."""
    spec = TrialSpec(
        trial_id="t",
        workload="mini",
        settings=settings,
        environment={"GLOO_SOCKET_IFNAME": netns.LINK},
        device=DeviceKind.CPU,
        plan=MeasurementPlan(min_warmup_steps=1, max_warmup_steps=1, windows=1, window_s=1.0),
    )
    path = directory / "spec.json"
    path.write_text(json.dumps(encode(spec)))
    ranks = []
    try:
        for number, host in enumerate(hosts):
            place = {
                "RANK": str(number), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
                "MASTER_ADDR": hosts[0].address, "MASTER_PORT": PORT, "OMP_NUM_THREADS": "1",
            }  # fmt: skip
            command = host.command(sys.executable, "-m", "autotune.trainers.rank", str(path))
            environment = {**os.environ, **spec.environment, **place}
            ranks.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE))
        outputs = [rank.communicate(timeout=PATIENCE_S)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()
    assert [rank.returncode for rank in ranks] == [0, 0], outputs
    last = from_line(outputs[0].splitlines()[-1])
    assert isinstance(last, Finished)
    return last.measurement


def samples_per_second(measurement: Measurement) -> float:
    windows = measurement.windows
    return sum(w.samples for w in windows) / sum(w.seconds for w in windows)


def test_replicating_with_accumulation_beats_sharding_without(
    hosts: list[netns.Host], tmp_path: Path
) -> None:
    # At equal micro-batch, DDP sends each gradient once in 4 micro-batches, where full sharding
    # sends parameters twice and gradients once in each of them.
    replicated = run_trial(hosts, TrainingSettings(micro_batch=4, accumulation_steps=4), tmp_path)
    sharded = run_trial(
        hosts,
        TrainingSettings(
            strategy=ShardingStrategy.FSDP_FULL, micro_batch=4, reshard_after_forward=True
        ),
        tmp_path,
    )
    assert replicated.effective["strategy"] == "ddp"
    assert sharded.effective["strategy"] == "fsdp_full"
    assert samples_per_second(replicated) > 2 * samples_per_second(sharded)


def fail_on_a_host(names: list[str]) -> None:
    with netns.hosts(1, rate="1gbit") as made:
        names.append(made[0].namespace)
        assert (Path("/run/netns") / names[0]).exists()
        raise KeyError


def test_nothing_of_the_hosts_is_left() -> None:
    reason = netns.why_not()
    if reason:
        pytest.skip(reason)
    names: list[str] = []
    with pytest.raises(KeyError):
        fail_on_a_host(names)
    assert not list(Path("/run/netns").glob(names[0].rpartition("-")[0] + "*"))
