"""What a report says of a study, in all its forms, whatever the store holds."""

import json
import re
from collections.abc import Sequence
from functools import cache
from html.parser import HTMLParser
from threading import Event

import pytest
from markdown_it import MarkdownIt

from autotune.compose import recall, runner
from autotune.executors.host import describe_machine
from autotune.loop.observer import Observer
from autotune.machines import simulated_place
from autotune.model import (
    Candidate,
    Conclusion,
    DeviceKind,
    Outcome,
    Phase,
    Samples,
    Script,
    Study,
    StudySpec,
    StudyStatus,
    Trial,
    UserWorkload,
    Window,
    encode,
)
from autotune.report.build import build_report
from autotune.report.content import Report
from autotune.report.document import document
from autotune.report.markdown import to_markdown
from autotune.report.page import to_html
from autotune.storage import MemoryStore
from tests.conformance.records import TARGET, a_measurement, a_study, a_trial
from tests.unit.test_simulated_study import BETTER, source_of, started

NASTY = (
    "</style><script>alert(1)</script><img src=x onerror=alert(2)>"
    "\"'&|`*_[x](y)\n# $\\frac$\x1b[31m"
)
FASTER = {"strategy": "fsdp_full", "groups": 1}


def trials_of(*rates: float, **changes: object) -> list[Trial]:
    found = []
    for number, rate in enumerate(rates):
        windows = tuple(
            Window(index=i, steps=10, samples=100, seconds=100 / rate) for i in range(3)
        )
        trial = a_trial(
            number=number, outcome=Outcome.COMPLETED, seconds=2.0,
            measurement=a_measurement(windows=windows), **changes,
        )  # fmt: skip
        found.append(trial)
    return found


def a_report_of(spec: StudySpec) -> Report:
    return build_report(a_study(spec=spec), [], status="finished", unknown="it is a test")


def a_report(trials: Sequence[Trial] = (), **changes: object) -> Report:
    study = a_study(spec=StudySpec(target=TARGET), **changes)
    return build_report(study, list(trials), status=study.status.value, unknown="it is a test")


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, MemoryStore, object]:
    """A study that ran to its end, its store, and what it said then."""
    source = source_of(tmp_path_factory.mktemp("landscape"), BETTER)
    store = MemoryStore()
    # It ends because nothing is left to try, which only another look at the search tells.
    only = ("strategy",)
    study = started(source, store, only=only, max_trials=None)
    end = runner(study, simulated_place(source), store, Observer(), Event()).run()
    found = store.study(study.run_id)
    assert found
    return found, store, end


def test_a_replay_says_what_the_study_said(
    simulated: tuple[Study, MemoryStore, object],
) -> None:
    study, store, end = simulated
    before = store.study(study.run_id), list(store.trials(study.run_id))
    recalled = recall(study, store)
    assert recalled.end.search_ended == "every candidate was tried"
    for field in ("decision", "evidence", "search_ended", "noise", "drift", "skipped", "no_effect"):
        assert getattr(recalled.end, field) == getattr(end, field), field
    assert (store.study(study.run_id), list(store.trials(study.run_id))) == before
    report = build_report(
        study, store.trials(study.run_id), status="finished", end=recalled.end,
        space=recalled.space,
    )  # fmt: skip
    assert report.kind == "simulated"
    assert report.answer.sentence.startswith("Simulated, nothing was measured")
    assert report.answer.winner
    assert report.answer.winner.settings["strategy"] == "fsdp_full"
    assert report.answer.ratio == recalled.end.decision.ratio
    assert len(report.answer.rounds) >= 5
    assert {name for one in report.answer.rounds for name in one.rates} == {"baseline", "winner"}
    assert [launch.trial for launch in report.history] == list(range(report.trials))
    assert report.skipped.knobs
    assert not report.skipped.unknown
    assert report.worth
    assert report.worth.knobs[0].knob == "strategy"
    assert [one.arm for one in report.steps] == ["baseline", "winner"]
    assert all(one.p10_ms <= one.median_ms <= one.p90_ms for one in report.steps)
    assert "--executor simulated" in report.reproduce.commands[0]
    page = to_html(document(report))
    assert 'class="badge warning">simulated<' in page


def test_a_study_of_another_machine_is_replayed_all_the_same() -> None:
    study = a_study(spec=StudySpec(target=TARGET))
    assert study.machine.instance != describe_machine().instance
    store = MemoryStore()
    store.add_study(study)
    baseline = recall(study, store).space.baseline()
    for trial in trials_of(100, 102, 101, candidate=baseline, phase=Phase.BASELINE):
        store.add_trial(trial)
    recalled = recall(study, store)
    assert recalled.space.facts.device is DeviceKind.CUDA
    assert recalled.end.noise


def test_a_study_of_another_machine_is_told_from_its_trials_alone() -> None:
    fast = {"candidate": Candidate(FASTER), "phase": Phase.SEARCH}
    trials = [*trials_of(100, 102, phase=Phase.BASELINE), *trials_of(150, **fast)]
    report = a_report(
        trials, status=StudyStatus.FINISHED, conclusion=Conclusion.KEEP_DEFAULTS, reason="so it is"
    )
    assert report.kind == "measured"
    assert report.answer.sentence == f"Keep the defaults for {TARGET.describe()}: so it is."
    assert report.answer.baseline
    assert report.answer.baseline.reading
    assert report.answer.baseline.reading.samples_per_second == pytest.approx(101)
    assert report.answer.winner is None
    assert report.skipped.unknown == "it is a test"
    assert "not known here: it is a test" in to_markdown(document(report))


SENTENCES = [
    ({"status": StudyStatus.RUNNING}, "No answer yet", "not confirmed"),
    ({"status": StudyStatus.INTERRUPTED}, "was interrupted", "not confirmed"),
    (
        {"conclusion": Conclusion.UNCONFIRMED, "reason": "r"},
        "Nothing is confirmed",
        "not confirmed",
    ),
    ({"conclusion": Conclusion.NO_CANDIDATE, "reason": "r"}, "No candidate works", "not confirmed"),
    ({"conclusion": Conclusion.IMPROVED, "reason": "r"}, "beats the defaults", "measured"),
]


@pytest.mark.parametrize(("changes", "sentence", "badge"), SENTENCES)
def test_the_answer_is_one_sentence(changes: dict[str, object], sentence: str, badge: str) -> None:
    made = document(a_report(trials_of(100.0, phase=Phase.BASELINE), **changes))
    assert sentence in made.lead
    assert badge in made.badge
    assert made.warning == (badge == "not confirmed")
    assert "\n" not in made.lead


def test_failures_are_grouped_with_whom_they_count_against() -> None:
    failed = [
        a_trial(number=n, outcome=outcome, reason=f"reason {n}", measurement=None)
        for n, outcome in enumerate(
            [Outcome.OUT_OF_MEMORY, Outcome.OUT_OF_MEMORY, Outcome.PLACEMENT, Outcome.PRUNED]
        )
    ]
    found = {group.outcome: group for group in a_report(failed).failures}
    assert found.keys() == {"out_of_memory", "placement"}
    assert found["out_of_memory"].trials == (0, 1)
    assert found["out_of_memory"].reason == "reason 1"
    assert (found["out_of_memory"].blamed, found["placement"].blamed) == ("candidate", "machine")


def test_memory_is_held_against_the_limit_and_communication_is_shown() -> None:
    report = a_report(trials_of(100.0, phase=Phase.BASELINE))
    assert report.memory.limit_bytes == 2**35
    assert [peak.bytes for peak in report.memory.peaks] == [2**34 + 1]
    assert report.communication[0].share == 0.25
    text = to_markdown(document(report))
    assert "16.00 GiB" in text
    assert "50.0 %" in text
    assert "25.0 %" in text


def crafted() -> Report:
    """A report on a study whose every text is hostile."""
    candidate = Candidate({"strategy": NASTY, NASTY: NASTY, "n": 3})
    trials = trials_of(100, 101, phase=Phase.BASELINE, candidate=Candidate({"strategy": "ddp"}))
    trials += trials_of(
        120, 121, candidate=candidate, environment={"NCCL_ALGO": NASTY}, reason=NASTY
    )
    trials += trials_of(110, candidate=Candidate({"strategy": "ddp", "n": "$\\frac$"}))
    failed = a_trial(
        number=7, candidate=candidate, outcome=Outcome.CRASHED, reason=NASTY, measurement=None
    )
    study = a_study(
        run_id="r",
        spec=StudySpec(target=TARGET, pinned={NASTY: NASTY}, only=(NASTY,), search=NASTY),
        status=StudyStatus.FINISHED,
        conclusion=Conclusion.KEEP_DEFAULTS,
        reason=NASTY,
    )
    return build_report(study, [*trials, failed], status=NASTY, unknown=NASTY)


@cache
def crafted_page() -> str:
    return to_html(document(crafted()))


class Tags(HTMLParser):
    """What a page is made of."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_nothing_from_the_store_is_markup_in_the_page() -> None:
    page = crafted_page()
    tags = Tags()
    tags.feed(page)
    names = {tag for tag, _ in tags.found}
    assert not names & {"script", "img", "iframe", "object", "link", "form"}
    assert not [a for _, attributes in tags.found for a in attributes if a.startswith("on")]
    assert page.count("</style>") == 1 + page.count("<style type=")
    assert "\x1b" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    policy = [a["content"] for tag, a in tags.found if tag == "meta" and "http-equiv" in a]
    assert policy
    assert str(policy[0]).startswith("default-src 'none'")


def test_a_page_names_no_address_to_load_from() -> None:
    page = crafted_page()
    tags = Tags()
    tags.feed(page)
    loading = ("src", "href", "xlink:href", "srcset", "data", "action", "poster")
    used = [str(a[name]) for _, a in tags.found for name in loading if name in a]
    styles = [str(a["style"]) for _, a in tags.found if "style" in a]
    used += re.findall(r"url\(([^)]*)\)", " ".join(styles))
    assert used
    assert all(target.startswith("#") for target in used), used


def test_nothing_from_the_store_is_markup_in_markdown() -> None:
    text = to_markdown(document(crafted()))
    rendered = MarkdownIt("commonmark").enable("table").render(text)
    tags = Tags()
    tags.feed(rendered)
    allowed = {
        "h1",
        "h2",
        "p",
        "strong",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "pre",
        "code",
    }
    assert {tag for tag, _ in tags.found} <= allowed
    assert "<code>" not in rendered.replace("<pre><code>", "")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) > 20
    # As many headings as sections, and none from a text.
    assert rendered.count("<h1>") == 1


def test_json_is_the_report() -> None:
    report = crafted()
    data = json.loads(json.dumps(encode(report)))
    assert data["schema"] == "autotune-report/v1"
    assert data["answer"]["reason"] == NASTY
    assert len(data["history"]) == 6


def test_an_empty_study_is_a_report_too() -> None:
    made = document(a_report())
    for text in (to_html(made), to_markdown(made)):
        assert "No answer yet" in text
        assert "nothing but the baseline was measured" in text


def test_the_same_study_gives_the_same_page() -> None:
    assert to_html(document(crafted())) == crafted_page()


def test_a_command_says_everything_that_was_asked() -> None:
    spec = StudySpec(
        target=TARGET, budget_s=90.0, max_trials=4, seed=3, pinned={"reshard": True},
        only=("a", "b"), space="full", allow_lossy=True, window_s=0.5, search="tpe",
        environment={"NCCL_ALGO": "Ring x"},
    )  # fmt: skip
    report = build_report(a_study(spec=spec), [], status="finished")
    assert report.reproduce.commands[0] == (
        "env 'NCCL_ALGO=Ring x' autotune run --instance p4d.24xlarge --workload tiny --nproc 8 "
        "--global-batch 64 --seed 3 --budget 90s --trials 4 --window 0.5s --space full "
        "--strategy tpe --only a,b --set reshard=true --allow-lossy"
    )


@pytest.mark.parametrize(
    ("samples", "option"),
    [
        (Samples.COUNTED, " --global-batch 64 "),
        (Samples.GIVEN, " --samples-per-step 64 "),
        (Samples.STEPS, " "),
    ],
)
def test_a_script_is_started_again_with_its_arguments(samples: Samples, option: str) -> None:
    script = Script(
        program="train it.py", arguments=("--n", "{micro_batch}"), folder="/here", samples=samples
    )
    own = UserWorkload(
        name="train it.py#abc", parameters=1, blocks=0, block="", global_batch=64, module="",
        folder="/here", file="/here/train it.py", digest="d", script=script,
    )  # fmt: skip
    report = a_report_of(StudySpec(target=TARGET, own_workload=own))
    command = report.reproduce.commands[0]
    assert command.endswith(" -- 'train it.py' --n '{micro_batch}'")
    assert "--workload" not in command
    assert option in command
    assert ("64 " in command) == (option != " ")
    assert "The script is started in the folder /here." in report.reproduce.notes


def test_what_the_search_did_not_reach_is_named(
    simulated: tuple[Study, MemoryStore, object],
) -> None:
    study, store, _ = simulated
    trials = [t for t in store.trials(study.run_id) if t.phase is Phase.BASELINE]
    recalled = recall(study, store)
    report = build_report(study, trials, status="finished", end=recalled.end, space=recalled.space)
    (reached,) = [why for why in report.skipped.knobs if why.startswith("not reached")]
    assert "strategy" in report.skipped.knobs[reached]
