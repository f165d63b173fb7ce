"""How long a job's study may take: what the job has, less what it uses before and after."""

import sys
from pathlib import Path
from typing import Any

import pytest

from autotune.errors import FieldError
from autotune.sagemaker.inside import study
from autotune.sagemaker.inside.clock import END_S, STARTED, UNSEEN_S, JobClock
from autotune.sagemaker.inside.job import Job
from autotune.sagemaker.inside.layout import Layout
from autotune.sagemaker.inside.notice import Notice
from autotune.storage.objects import FolderObjects

RUN = "20261130-060000-abcd"
AROUND_S = UNSEEN_S + END_S


def a_job(**given: Any) -> Job:
    values = {"format": 1, "run_id": RUN, "arguments": (), "s3": f"s3://b/{RUN}", "token": "t" * 64}
    return Job(**(values | given))


def clock(folder: Path, job: Job, *, started_s: float = 100.0, now_s: float = 100.0) -> JobClock:
    environ = {STARTED: repr(started_s)}
    return JobClock(job, FolderObjects(folder), environ, now=lambda: now_s)


@pytest.mark.parametrize(
    ("given", "limit_s"),
    [
        ({}, None),
        ({"time_limit_s": 3600.0}, 3600.0),
        ({"time_limit_s": 3600.0, "cost_limit_usd": 20.0, "usd_per_hour": 40.0}, 1800.0),
        ({"time_limit_s": 600.0, "cost_limit_usd": 20.0, "usd_per_hour": 40.0}, 600.0),
        ({"cost_limit_usd": 20.0, "usd_per_hour": 40.0, "spent_usd": 15.0}, 450.0),
        ({"cost_limit_usd": 20.0}, None),
    ],
)
def test_a_job_has_the_smaller_of_its_time_and_its_money(
    given: dict[str, Any], limit_s: float | None
) -> None:
    assert a_job(**given).limit_s == limit_s


@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan")])
@pytest.mark.parametrize("name", ["time_limit_s", "cost_limit_usd", "usd_per_hour"])
def test_a_limit_that_is_none_is_refused(name: str, value: float) -> None:
    with pytest.raises(FieldError, match=f"{name}: .* has to be positive and finite"):
        a_job(**{name: value})


def test_the_study_has_what_the_job_doesnt_need_around_it(tmp_path: Path) -> None:
    job = a_job(time_limit_s=3600.0)
    assert clock(tmp_path, job).left_s == 3600.0 - AROUND_S
    assert clock(tmp_path, job, now_s=250.0).left_s == 3600.0 - AROUND_S - 150.0
    assert clock(tmp_path, a_job(time_limit_s=60.0)).left_s == 1.0
    assert clock(tmp_path, a_job()).left_s is None


def test_what_a_containers_first_start_used_counts_after_an_interruption(tmp_path: Path) -> None:
    job = a_job(time_limit_s=3600.0)
    clock(tmp_path, job, now_s=700.0).keep()
    again = clock(tmp_path, job, started_s=5.0, now_s=5.0)
    assert again.left_s == 3600.0 - 600.0 - UNSEEN_S - AROUND_S
    other = clock(tmp_path, a_job(time_limit_s=3600.0, token="u" * 64))
    assert other.left_s == 3600.0 - AROUND_S, "another job's time is its own"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"job": 1}', b"null", b"\xff"])
def test_a_clock_that_cant_be_read_is_a_new_one(tmp_path: Path, content: bytes) -> None:
    FolderObjects(tmp_path).put("clock/used.json", content)
    assert clock(tmp_path, a_job(time_limit_s=3600.0)).left_s == 3600.0 - AROUND_S


@pytest.mark.parametrize("goes_on", [False, True])
def test_the_controller_is_told_its_time(goes_on: bool) -> None:
    words = study.command(a_job(), goes_on=goes_on, time_limit_s=1234.5)
    assert words[words.index("--time-limit") + 1] == "1234s"
    assert "--time-limit" not in study.command(a_job(), goes_on=goes_on)


def test_a_job_whose_time_is_up_has_not_failed(tmp_path: Path) -> None:
    layout = Layout(root=tmp_path)
    layout.work.mkdir(parents=True)
    words = [sys.executable, "-S", "-c", "raise SystemExit(130)"]
    assert study.run(words, layout, {}, Notice()).code == 0
    words[-1] = "raise SystemExit(3)"
    assert study.run(words, layout, {}, Notice()).code == 3
