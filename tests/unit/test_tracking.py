"""What other tools are told of a study, read back by the tools' own readers."""

import re
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event

import pytest

from autotune.compose import runner
from autotune.errors import FieldError, UserError
from autotune.loop.observer import Observer, Observers
from autotune.machines import simulated_place
from autotune.model import Outcome, Study, Trial
from autotune.storage import MemoryStore
from autotune.tracking.base import Closing, Entry, Opening, Tracker
from autotune.tracking.cloudwatch import METRICS, metric_regex
from autotune.tracking.destination import open_trackers
from autotune.tracking.facts import entry
from autotune.tracking.observer import Tracking
from tests.conformance.records import NAN, a_measurement, a_study, a_trial
from tests.unit.test_simulated_study import BETTER, source_of, started

TRIALS = [
    a_trial(number=0),
    a_trial(number=1, outcome=Outcome.CRASHED, reason="as | it\nis", measurement=None),
    a_trial(number=2, measurement=a_measurement(losses=(NAN,), gradient_norms=(1.0,))),
]


class Record(Tracker):
    """Keeps what it is told; fails or stands still at one of its methods."""

    def __init__(self, fails_at: str = "", stands_at: str = "") -> None:
        self.told: list[object] = []
        self._fails_at, self._stands_at = fails_at, stands_at

    def begin(self, opening: Opening) -> None:
        self._tell("begin", opening)

    def add(self, entry: Entry) -> None:
        self._tell("add", entry)

    def end(self, closing: Closing) -> None:
        self._tell("end", closing)

    def close(self) -> None:
        self._tell("close", None)

    def _tell(self, method: str, what: object) -> None:
        if method == self._fails_at:
            raise OSError("no room: postgresql://me:secret@host/db")
        if method == self._stands_at:
            time.sleep(60)
        self.told.append(what)


def shown_in(
    trackers: dict[str, Tracker], trials: Sequence[Trial] = TRIALS, stalled_s: float = 100.0
) -> list[str]:
    """Shows a study to `trackers`, and returns the warnings."""
    warnings: list[str] = []
    tracking = Tracking(a_study(), trackers, warnings.append)
    for trial in trials:
        tracking.trial_ended(trial)
    tracking.close(stalled_s)
    return warnings


def test_a_tool_is_told_everything_in_order() -> None:
    record = Record()
    assert shown_in({"it": record}) == []
    opening, *entries, last = record.told
    assert isinstance(opening, Opening)
    assert opening.run == "r"
    assert entries == [entry(trial) for trial in TRIALS]
    assert last is None


def test_figures_are_those_of_the_score_and_finite() -> None:
    whole, failed, nan = (entry(trial) for trial in TRIALS)
    assert whole.figures.keys() >= {"samples_per_second", "stability", "last_loss", "seconds"}
    assert failed.figures.keys() == {"seconds"}
    assert "last_loss" not in nan.figures
    assert whole.settings == {"strategy": "ddp", "reshard": "true", "groups": "1", "ratio": "1.0"}


@pytest.mark.parametrize("method", ["begin", "add", "close"])
def test_a_tool_that_fails_is_warned_of_once_and_harms_nothing(method: str) -> None:
    bad, good = Record(fails_at=method), Record()
    (warning,) = shown_in({"bad": bad, "good": good})
    assert warning.startswith("bad: no room")
    assert "secret" not in warning
    assert len(good.told) == 5


def test_a_study_does_not_wait_for_a_tool_that_stands_still() -> None:
    record, good = Record(stands_at="add"), Record()
    before = time.monotonic()
    (warning,) = shown_in({"slow": record, "good": good}, stalled_s=2.0)
    assert time.monotonic() - before < 30
    assert "slow: gets nothing done" in warning
    assert len(good.told) == 5


def test_a_study_goes_on_though_its_tool_fails(tmp_path: Path) -> None:
    source, store = source_of(tmp_path, BETTER), MemoryStore()
    study = started(source, store, max_trials=1)
    warnings: list[str] = []
    tracking = Tracking(study, {"bad": Record(fails_at="add")}, warnings.append)
    observer = Observers([Observer(), tracking])
    end = runner(study, simulated_place(source), store, observer, Event()).run()
    tracking.study_ended(end)
    tracking.close()
    assert len(warnings) == 1
    assert end.evidence
    assert len(store.trials(study.run_id)) == end.evidence.trials


REFUSED = ["tensorboard", "tensorboard:", "x:y", ":y", "", "Wandb:x"]


@pytest.mark.parametrize("text", REFUSED)
def test_what_names_no_tool_and_place_is_refused(text: str) -> None:
    with pytest.raises(FieldError, match="TOOL:PLACE") as caught:
        open_trackers([text])
    assert "mlflow:URI" in str(caught.value)


def test_a_tool_that_is_not_installed_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    with pytest.raises(UserError) as caught:
        open_trackers(["wandb:x"])
    assert caught.value.hint == "pip install 'autotune-train[wandb]'"


def test_tensorboard_reads_what_was_written(tmp_path: Path) -> None:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    assert shown_in(open_trackers([f"tensorboard:{tmp_path}"])) == []
    study = reader.EventAccumulator(str(tmp_path / "r"))
    study.Reload()
    rates = study.Scalars("samples_per_second")
    assert [event.step for event in rates] == [0, 2]
    assert rates[0].value == pytest.approx(entry(TRIALS[0]).figures["samples_per_second"])
    texts = study.Tensors("outcome")
    assert b"| reason | as \\| it is |" in texts[1].tensor_proto.string_val[0]
    own = reader.EventAccumulator(str(tmp_path / "r" / "trial-0001"))
    own.Reload()
    assert "_hparams_/session_start_info" in own.PluginTagToContent("hparams")


@pytest.mark.filterwarnings("ignore:The ``noload`` loader")
def test_mlflow_reads_what_was_written_and_goes_on_after_a_resume(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    assert shown_in(open_trackers([f"mlflow:{uri}"])) == []
    assert shown_in(open_trackers([f"mlflow:{uri}"]), [a_trial(number=3)]) == []
    client = mlflow.MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("autotune")
    runs = client.search_runs([experiment.experiment_id])
    (study,) = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    own = {run.info.run_name: run for run in runs if run is not study}
    assert own.keys() == {f"trial {number}" for number in range(4)}
    assert own["trial 0"].data.params == dict(entry(TRIALS[0]).settings)
    assert own["trial 0"].data.metrics == pytest.approx(entry(TRIALS[0]).figures)
    assert own["trial 1"].info.status == "FAILED"
    assert own["trial 1"].data.tags["outcome"] == "crashed"
    history = client.get_metric_history(study.info.run_id, "samples_per_second")
    assert [metric.step for metric in history] == [0, 2, 3]


def test_wandb_reads_what_was_written_offline(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    assert shown_in(open_trackers([f"wandb:{tmp_path}"])) == []
    (file,) = tmp_path.glob("wandb/offline-run-*/run-r.wandb")
    rows = list(history_of(file))
    assert [row["trial"] for row in rows] == ["0", "1", "2"]
    assert rows[1]["outcome"] == '"crashed"'
    assert float(rows[0]["samples_per_second"]) == pytest.approx(
        entry(TRIALS[0]).figures["samples_per_second"]
    )


def history_of(file: Path) -> Iterator[dict[str, str]]:
    """The rows of an offline run, by wandb's own messages in its log of records.

    The log is LevelDB's: 32 KiB blocks of (CRC, length, kind) and a part of a record.
    """
    from wandb.proto import wandb_internal_pb2

    data, at, record = file.read_bytes(), 7, b""
    while at + 7 <= len(data):
        if 2**15 - at % 2**15 < 7:
            at += 2**15 - at % 2**15
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        record += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            message = wandb_internal_pb2.Record()
            message.ParseFromString(record)
            record = b""
            if message.WhichOneof("record_type") == "history":
                yield {
                    item.key or "/".join(item.nested_key): item.value_json
                    for item in message.history.item
                }


def test_a_started_study_is_what_the_opening_is_about() -> None:
    record = Record()
    shown_in({"it": record}, [])
    study: Study = a_study()
    opening = record.told[0]
    assert isinstance(opening, Opening)
    assert opening.texts["kind"] == "measured"
    assert opening.texts["workload"] == study.spec.target.workload


def test_every_line_of_figures_is_found_by_a_metric_definition(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown_in(open_trackers(["cloudwatch:stderr"]))
    said = capsys.readouterr().err
    found = {metric: re.findall(metric_regex(metric), said) for metric in METRICS}
    rate = entry(TRIALS[0]).figures["samples_per_second"]
    # Two of the trials have measured something.
    assert found["autotune.samples_per_s"] == [f"{rate:.3f}"] * 2
    assert found["autotune.best_samples_per_s"][0] == f"{rate:.3f}"
    tracker = open_trackers(["cloudwatch:stderr"])["cloudwatch:stderr"]
    tracker.end(Closing(figures={"gain_percent": -1.25, "baseline_samples_per_second": 1e9}))
    last = capsys.readouterr().err
    assert re.findall(metric_regex("autotune.gain_percent"), last) == ["-1.250"]
    assert re.findall(metric_regex("autotune.baseline_samples_per_s"), last) == ["1000000000.000"]
    with pytest.raises(FieldError, match=r"cloudwatch:/tmp/x.*one of: stderr"):
        open_trackers(["cloudwatch:/tmp/x"])
