"""Landscapes as data: those that come with autotune, a user's on top, tables, and mistakes."""

import gzip
import hashlib
from collections.abc import Sequence
from pathlib import Path
from statistics import stdev

import pytest

from autotune.errors import UserError
from autotune.executors.landscapes import (
    Effects,
    Landscape,
    LandscapeSource,
    Recorded,
    Row,
    Rule,
    Scenario,
    layout_of,
    shipped_names,
    table_bytes,
)
from autotune.executors.landscapes.files import read_scenario
from autotune.machines import simulated_place
from autotune.model import Outcome, ShardingStrategy, Target, TrainingSettings
from autotune.space.catalogue import load_knobs
from autotune.space.space import Space
from autotune.yaml_reader import read_yaml

DDP = TrainingSettings(micro_batch=16)
FSDP = TrainingSettings(
    micro_batch=16, strategy=ShardingStrategy.FSDP_FULL, reshard_after_forward=True
)


def scenario(text: str) -> Scenario:
    return read_scenario(read_yaml(text, "mine.yaml"))


def write(path: Path, text: str) -> LandscapeSource:
    path.write_text(text)
    return LandscapeSource.of(str(path))


def space_of(source: LandscapeSource, global_batch: int = 1024) -> Space:
    place = simulated_place(source)
    found = source.scenario()
    target = Target(
        instance=place.machine.instance,
        nodes=found.nodes,
        ranks_per_node=found.ranks_per_node or len(place.machine.gpus) or place.machine.cores,
        workload="tiny",
        global_batch=global_batch,
    )
    only = found.job.only if found.job else ()
    return Space(load_knobs(), place.facts(target), only=only)


def rates(source: LandscapeSource, most: int = 300) -> list[float]:
    space, landscape = space_of(source, 32 if source.scenario().job else 1024), source.landscape()
    found = []
    for candidate, _ in zip(space.candidates(), range(most), strict=False):
        layout = layout_of(space.settings(candidate), space.environment(candidate))
        if landscape.speed.failure(layout) is None:
            found.append(landscape.rate(layout))
    return found


@pytest.mark.parametrize("name", shipped_names())
def test_every_shipped_landscape_gives_its_space_a_speed(name: str) -> None:
    source = LandscapeSource.of(name)
    assert source.scenario().help
    found = rates(source)
    assert len(found) > 50
    assert min(found) > 0
    assert simulated_place(source).machine.instance == f"simulated:{name}"


@pytest.mark.parametrize(
    ("name", "is_flat"), [("all-equal", True), ("drifting", True), ("additive", False),
                          ("interacting", False), ("rugged", False)],
)  # fmt: skip
def test_landscapes_are_as_rough_as_they_say(name: str, is_flat: bool) -> None:
    found = rates(LandscapeSource.of(name))
    assert (max(found) == min(found)) is is_flat
    # Defaults are what the file says, so that gains are over them.
    assert found[0] == pytest.approx(LandscapeSource.of(name).scenario().samples_per_second)


def test_one_better_is_better_by_what_is_asked_for() -> None:
    landscape = scenario("base: one-better\ngain_percent: 8\nbetter: {strategy: fsdp_full}")
    found = landscape.landscape("x")
    assert found.rate(layout_of(FSDP, {})) == pytest.approx(1.08 * found.rate(layout_of(DDP, {})))


def test_a_base_is_changed_key_by_key() -> None:
    base, mine = LandscapeSource.of("all-equal").scenario(), scenario("base: all-equal\nseed: 3")
    assert mine.seed == 3
    assert mine.step_noise_percent == base.step_noise_percent
    louder = scenario("base: all-equal\nlaunch_noise_percent: 8").landscape("x")
    assert louder.noise.launch_percent == 8


def test_effects_multiply_where_pairs_have_none_of_their_own() -> None:
    def factor(effects: Effects, **variables: str) -> float:
        return effects.factor(layout_of(FSDP if variables.pop("fsdp", "") else DDP, variables))

    additive = Effects(value_percent=5, seed=2)
    both = factor(additive, fsdp="1", NCCL_A="1") / factor(additive, fsdp="1")
    assert both == pytest.approx(factor(additive, NCCL_A="1"))
    interacting = Effects(value_percent=5, pair_percent=5, seed=2)
    both = factor(interacting, fsdp="1", NCCL_A="1") / factor(interacting, fsdp="1")
    assert both != pytest.approx(factor(interacting, NCCL_A="1"))


def test_drawn_effects_have_their_size_and_stay() -> None:
    effects = Effects(rugged_percent=6, seed=1)
    found = [effects.factor(layout_of(DDP, {"NCCL_A": str(n)})) for n in range(1000)]
    assert stdev(found) == pytest.approx(0.06, rel=0.15)
    assert effects.factor(layout_of(DDP, {"NCCL_A": "7"})) == found[7]
    assert effects.factor(layout_of(DDP, {})) == 1.0


def test_rules_compare_and_choose() -> None:
    rule = Rule(when={"NCCL_BUFFSIZE": ">=1048576", "strategy": ("ddp", "hybrid")}, percent=10)
    effects = Effects(rules=(rule,))
    assert effects.factor(layout_of(DDP, {"NCCL_BUFFSIZE": "2097152"})) == pytest.approx(1.1)
    assert effects.factor(layout_of(DDP, {"NCCL_BUFFSIZE": "4096"})) == 1.0
    assert effects.factor(layout_of(FSDP, {"NCCL_BUFFSIZE": "2097152"})) == 1.0
    assert effects.factor(layout_of(DDP, {})) == 1.0


MISTAKES = [
    ("[1]", ["mine.yaml:1", "mapping"]),
    ("base: al-equal", ["mine.yaml:1: base", "did you mean 'all-equal'"]),
    ("base: [x]", ["mine.yaml:1: base"]),
    ("seed: 1\nnoise: 3", ["mine.yaml:2: noise", "unknown"]),
    ("launch_noise_percent: 101", ["launch_noise_percent", "101", "from 0 to 100"]),
    ("launch_noise_percent: nan", ["launch_noise_percent"]),
    ("launch_noise_percent: x", ["launch_noise_percent", "'x'", "number"]),
    ("samples_per_second: inf", ["samples_per_second", "finite"]),
    ("samples_per_second: 0", ["samples_per_second"]),
    ("launch_s: -1.0", ["launch_s"]),
    ("value_percent: -1.0", ["value_percent"]),
    ("memory_percent: -1.0", ["memory_percent"]),
    ("gain_percent: -100.0", ["mine.yaml:1: gain_percent"]),
    ("better: {stratgy: ddp}", ["mine.yaml:1: better.stratgy", "did you mean 'strategy'"]),
    ("rules:\n  - {percent: 3}\n  - {when: {strategy: zero}, percent: 3}",
     ["mine.yaml:3: rules[1].when.strategy", "'zero'", "fsdp_full"]),
    ("rules:\n  - {when: {nccl_channels: 4}, percent: 3}", ["nccl_channels", "hint"]),
    ("failures:\n  - {outcome: completed}", ["failures[0].outcome", "crashed"]),
    ("failures:\n  - {outcome: crashed, percent: 101}", ["failures[0].percent"]),
    ("failures:\n  - {outcome: crashed, after_windows: -1}", ["failures[0].after_windows"]),
    ("drift: {kind: sideways}", ["drift.kind", "linear"]),
    ("drift: {kind: sine, period_s: 0}", ["drift.period_s"]),
    ("drift: {kind: linear, percent: -100}", ["drift.percent"]),
    ("nodes: 0", ["nodes", "from 1"]),
    ("cores: 99999999", ["cores", "4096"]),
    ("versions: {cuda: x}", ["versions.cuda", "nccl"]),
    ("seed: 1\nversions: {nccl: bad}", ["mine.yaml:2: versions.nccl", "'bad'", "2.27.5"]),
    ("launch_s: 1e-3", ["launch_s: '1e-3' has to be a number", "a sign: 1.0e-03"]),
    ("launch_s: 25e1", ["launch_s: '25e1' has to be a number", "a sign: 2.5e+02"]),
    ("table: {file: ../x.csv.gz, sha256: x}", ["table.file", "same folder"]),
    ("job: {workload: tiny, global_batch: 32, only: []}", ["job", "table"]),
    ("base: all-equal\ntable: {file: x, sha256: y}", ["mine.yaml:2: table"]),
    ("seed: 1\nseed: 2", ["mine.yaml:2: seed", "line 1"]),
    ("seed: !!python/object:os.system x", ["tags"]),
]  # fmt: skip


def test_a_table_on_top_of_a_base_is_one_mistake() -> None:
    with pytest.raises(UserError) as caught:
        scenario("base: two-ranks\ntable: x.csv")
    expected = "mine.yaml:2: table: 'x.csv' can't be changed on top of a base"
    assert str(caught.value) == expected


@pytest.mark.parametrize(("text", "words"), MISTAKES)
def test_a_mistake_is_named_with_its_place(text: str, words: Sequence[str]) -> None:
    with pytest.raises(UserError) as caught:
        scenario(text)
    message = f"{caught.value} hint: {caught.value.hint}"
    for word in words:
        assert word in message


def test_a_machine_that_is_in_no_catalogue_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'p4d\.24xlargee'.*did you mean 'p4d\.24xlarge'"):
        simulated_place(write(tmp_path / "x.yaml", "machine: p4d.24xlargee"))


ROWS = (
    Row(layout="{}", launch=0, outcome=Outcome.COMPLETED, seconds=1.0, rates=(98.0, 100.0, 102.0)),
    Row(layout="{}", launch=1, outcome=Outcome.COMPLETED, seconds=1.0, rates=(118.0, 122.0)),
    Row(layout='{"bucket_cap_mb": 5}', launch=0, outcome=Outcome.CRASHED, seconds=1.0, rates=()),
)
RECORDED = """
table: {{file: x.csv.gz, sha256: {}}}
job: {{workload: tiny, global_batch: 32, only: [bucket_cap_mb]}}
"""


def record(folder: Path, content: bytes) -> LandscapeSource:
    (folder / "x.csv.gz").write_bytes(content)
    return write(folder / "x.yaml", RECORDED.format(hashlib.sha256(content).hexdigest()))


def test_a_recorded_landscape_plays_back_means_noise_and_failures(tmp_path: Path) -> None:
    landscape = record(tmp_path, table_bytes(ROWS)).landscape()
    assert landscape.rate(layout_of(DDP, {})) == pytest.approx(110)
    # The standard deviation of log 100 and log 120 is 12.9 %.
    assert landscape.noise.launch_percent == pytest.approx(13.8, abs=0.1)
    assert 1 < landscape.noise.window_percent < 3
    small = layout_of(TrainingSettings(micro_batch=16, bucket_cap_mb=5), {})
    failure = landscape.failure(small, "1")
    assert failure is not None
    assert failure.outcome is Outcome.CRASHED
    assert landscape.failure(layout_of(DDP, {}), "1") is None
    with pytest.raises(UserError, match=r"no record of .*fsdp_full"):
        landscape.rate(layout_of(FSDP, {}))


def test_noise_of_a_recorded_landscape_can_be_replaced(tmp_path: Path) -> None:
    source = record(tmp_path, table_bytes(ROWS))
    other = write(tmp_path / "y.yaml", f"{source.text}\nlaunch_noise_percent: 1.5")
    assert other.landscape().noise.launch_percent == 1.5


def test_a_candidate_that_failed_once_and_ran_once_has_a_speed() -> None:
    failed = Row(layout="{}", launch=2, outcome=Outcome.CRASHED, seconds=1.0, rates=())
    recorded = Recorded.of([failed, *ROWS])
    assert recorded.failure(layout_of(DDP, {})) is None
    assert Landscape(name="x", speed=recorded, samples_per_second=1).rate(layout_of(DDP, {})) > 1


def packed(text: str) -> bytes:
    return gzip.compress(text.encode(), mtime=0)


HEAD = "layout,launch,outcome,seconds,samples_per_second\n"
TABLES = [
    (b"no gzip", "is not a gzip file"),
    (packed(HEAD)[:-9], "is not a gzip file"),
    (gzip.compress(b"\xff", mtime=0), "UTF-8"),
    (packed("a,b\n"), "x.csv.gz:1: the columns"),
    (packed(HEAD + "{},0\n"), "x.csv.gz:2: "),
    (packed(HEAD + "{},0,completed,1.0,-5\n"), "x.csv.gz:2: .*positive"),
    (packed(HEAD + "{},0,completed,1.0,nan\n"), "x.csv.gz:2: .*positive"),
    (packed(HEAD + "{},0,completed,1.0,\n"), "x.csv.gz:2: .*contradicts"),
    (packed(HEAD + "{},0,exploded,1.0,5\n"), "x.csv.gz:2: .*exploded"),
    (packed(HEAD + "[],0,completed,1.0,5\n"), "x.csv.gz:2: .*mapping"),
    (packed(HEAD + "{},many,completed,1.0,5\n"), "x.csv.gz:2: .*many"),
    (gzip.compress(bytes(20 << 20), mtime=0), "more than the"),
]


@pytest.mark.parametrize(("content", "message"), TABLES)
def test_a_damaged_table_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(UserError, match=message):
        record(tmp_path, content).landscape()


def test_a_table_that_was_changed_or_is_gone_is_refused(tmp_path: Path) -> None:
    source = record(tmp_path, table_bytes(ROWS))
    (tmp_path / "x.csv.gz").write_bytes(table_bytes(ROWS[:1]))
    with pytest.raises(UserError, match="SHA-256"):
        source.landscape()
    (tmp_path / "x.csv.gz").unlink()
    with pytest.raises(UserError, match="can't be read"):
        source.landscape()


def test_an_empty_file_is_named_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.touch()
    with pytest.raises(UserError, match=r"mine\.yaml: is empty$"):
        LandscapeSource.of(str(path))


def test_a_name_that_is_neither_shipped_nor_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--landscape: 'aditive'.*did you mean 'additive'"):
        LandscapeSource.of("aditive")
    with pytest.raises(UserError, match="can't be read"):
        LandscapeSource.of(str(tmp_path / "none.yaml"))
