"""What all tests need."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch

from autotune.executors.own_folder import PREFIX, remove_abandoned

REAL_TRIALS = ("e2e", "faults", "integration")
"""Folders of tests that take long."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those first: none of the processes is to be left with a long file in the end."""
    here = Path(__file__).parent
    items.sort(key=lambda item: item.path.relative_to(here).parts[0] not in REAL_TRIALS)


@pytest.fixture(scope="session", autouse=True)
def temporary_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """All temporary files of these tests, and of what they start, Ray's and torchrun's too.

    Its path is short, unlike that of pytest's own folder: sockets are made in it.
    """
    tmp_path_factory.getbasetemp()  # stays where it was, for whoever looks at it later
    with (
        pytest.MonkeyPatch.context() as patch,
        # Processes of Ray may write to the last.
        TemporaryDirectory(prefix="at-", dir="/tmp", ignore_cleanup_errors=True) as name,
    ):
        Path(name).chmod(0o711)  # some tests start programs as another user
        patch.setitem(os.environ, "TMPDIR", name)
        patch.setattr("tempfile.tempdir", name)
        yield Path(name)


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left(temporary_files: Path) -> Iterator[None]:
    """No folder of this package once a file of tests has ended, though it has killed processes."""
    yield
    deadline = time.monotonic() + 30  # for processes of Ray, which may take a while to end
    while left := own_folders(temporary_files):
        assert time.monotonic() < deadline, left
        time.sleep(0.2)


def own_folders(temporary_files: Path) -> list[str]:
    """Those of living processes, or that nobody would remove."""
    remove_abandoned()
    return [path.name for path in temporary_files.glob(f"{PREFIX}*")]


@pytest.fixture(scope="session", autouse=True)
def own_machine_lock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Studies of these tests neither wait for nor disturb those of others on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "AUTOTUNE_LOCK_FOLDER", str(tmp_path_factory.mktemp("locks")))
        yield


@pytest.fixture(autouse=True)
def same_environment() -> Iterator[None]:
    """What a test has set, such as by `apply_env`, is no other one's."""
    before = {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"}
    yield
    for name in os.environ.keys() - before.keys() - {"PYTEST_CURRENT_TEST"}:
        del os.environ[name]
    os.environ.update(before)


@pytest.fixture(autouse=True)
def same_signals() -> Iterator[None]:
    """What a test, or a library that it calls, such as Ray Tune, does with Ctrl-C ends with it."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        if handler is not None:  # not installed from Python, and so not to be installed again
            signal.signal(number, handler)


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Small tensors gain nothing from more, and on a busy machine threads wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
