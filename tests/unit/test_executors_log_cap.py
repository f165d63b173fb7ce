"""Logs of running trials stay small, and keep their beginning and their end."""

import os
import time
from pathlib import Path

import pytest

from autotune.executors import log_cap
from autotune.executors.log_cap import LogCap


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_cap, "MOST_BYTES", 10_000)
    monkeypatch.setattr(log_cap, "KEPT_BYTES", 100)
    monkeypatch.setattr(log_cap, "CHECK_S", 0.001)


def append(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)


@pytest.mark.usefixtures("small")
def test_a_log_never_grows_far_beyond_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    log = append(path)
    os.write(log, b"the beginning" + b"." * 200)
    with LogCap([path]):
        for _ in range(43):  # it is emptied after 10 of them, and after each 11 more
            os.write(log, b"x" * 1000)
            deadline = time.monotonic() + 20
            while path.stat().st_size > 10_000:
                assert time.monotonic() < deadline
                time.sleep(0.001)
        os.write(log, b"the end")
    os.close(log)
    text = path.read_text()
    assert text.startswith("the beginning.")
    assert text.endswith("x" * 93 + "the end")
    assert len(text) < 300
    total = 43_000 + 213 + 7
    assert f"of {total} bytes left out here]" in text


@pytest.mark.usefixtures("small")
def test_what_is_short_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    path.write_bytes(b"\0" * 150 + b"end")
    with LogCap([path, tmp_path / "missing.log"]):
        pass
    assert path.read_bytes() == b"\0" * 150 + b"end"


@pytest.mark.usefixtures("small")
def test_a_trial_that_went_well_keeps_less(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    path.write_bytes(b"a" * 90 + b"b" * 90)
    with LogCap([path]) as logs:
        logs.finish()
        assert path.stat().st_size == 180
        logs.trim(10)
    assert (
        path.read_text() == "a" * 10 + "\n[autotune: 160 of 180 bytes left out here]\n" + "b" * 10
    )
