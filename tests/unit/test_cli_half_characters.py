"""Half a surrogate pair in a store's texts, as a crashed process's log may have it: it has no form
in UTF-8, and every command gives UTF-8 all the same.
"""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from autotune.cli.main import main
from autotune.cli.progress import Progress
from autotune.model import Candidate, Conclusion, Outcome, Phase
from autotune.storage import Store, open_store
from autotune.tracking.facts import entry
from tests.conformance.records import a_best, a_job, a_measurement, a_study, a_trial

HALF = "x\ud800y"


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with one in every free text."""
    found = f"sqlite:///{tmp_path}/crafted.db"
    with open_store(found) as store:
        fill(store)
    return found


def fill(store: Store) -> None:
    study = a_study(reason=HALF, conclusion=Conclusion.IMPROVED)
    spec = replace(study.spec, space_text=HALF, output=HALF, pinned={"reshard": HALF}, only=(HALF,))
    machine = replace(study.machine, cpu=HALF, versions={"torch": HALF})
    store.add_study(replace(study, spec=spec, machine=machine))
    store.add_trial(a_trial(0, phase=Phase.BASELINE, reason=HALF, environment={"NCCL_ALGO": HALF}))
    store.add_trial(a_trial(1, candidate=Candidate({"strategy": HALF, HALF: 1}), log_path=HALF,
                            outcome=Outcome.CRASHED, measurement=None, log_tail=HALF,
                            left_behind=HALF))  # fmt: skip
    store.add_trial(a_trial(2, measurement=a_measurement(effective={HALF: HALF})))
    store.add_job(a_job(described=HALF))
    store.add_job(a_job("autotune-q", "q", described=HALF))
    best = a_best(versions={"torch": HALF})
    store.save_best(replace(best, evidence=replace(best.evidence, reason=HALF)))


def called(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch,
           *words: str) -> str:  # fmt: skip
    """Stdout, decoded, of a command that has to work."""
    monkeypatch.setattr("sys.argv", ["autotune", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    shown, err = capfdbinary.readouterr()
    assert not ended.value.code, err
    # Captured output puts a question mark where a real one has no way to go on.
    assert b"x?y" not in shown
    return shown.decode()


SHOWN = {
    "runs": ["runs"], "show": ["show", "r"], "best": ["best", "--instance", "p4d.24xlarge"],
    "markdown": ["report", "r", "--to", "md"],
}  # fmt: skip
AS_JSON = {
    **{name: [*words, "--format", "json"] for name, words in SHOWN.items() if name != "markdown"},
    "report": ["report", "r", "--to", "json"],
}


@pytest.mark.parametrize("name", SHOWN)
def test_people_see_it_escaped(
    name: str, url: str, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = called(capfdbinary, monkeypatch, *SHOWN[name], "--storage", url)
    assert "x\\ud800y" in out.replace("\\uD800", "\\ud800")


@pytest.mark.parametrize("name", AS_JSON)
def test_programs_get_json_that_names_it(
    name: str, url: str, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = called(capfdbinary, monkeypatch, *AS_JSON[name], "--storage", url)
    assert HALF in str([*leaves(json.loads(out))]).replace("\\ud800", "\ud800")


def leaves(data: object) -> list[object]:
    if isinstance(data, dict):
        return [leaf for key, value in data.items() for leaf in (key, *leaves(value))]
    return [leaf for item in data for leaf in leaves(item)] if isinstance(data, list) else [data]


def test_files_are_written_with_it_escaped(
    url: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    page, other = tmp_path / "page.html", f"sqlite:///{tmp_path}/optuna.db"
    called(capfdbinary, monkeypatch, "report", "r", "--storage", url, "--output", str(page))
    assert "x\\ud800y" in page.read_text(encoding="utf-8")
    words = ["report", "r", "--to", "optuna", "--storage", url, "--output", other]
    assert called(capfdbinary, monkeypatch, *words) == "autotune-r\n"


def test_progress_and_other_tools_get_it_escaped() -> None:
    buffer = io.BytesIO()
    console = Console(file=io.TextIOWrapper(buffer, encoding="utf-8", write_through=True))
    Progress(console).say(f"{HALF}\x1b[2J")
    assert buffer.getvalue() == b"x\\ud800y\\x1b[2J\n"
    assert entry(a_trial(reason=HALF)).texts["reason"] == "x\\ud800y"
