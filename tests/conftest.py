"""What all tests need."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

GROUPS = {"e2e": "studies", "integration": "studies", "faults": "faults"}
"""Folders whose tests follow each other in one process of pytest-xdist: they have real trials, of
which few are to run beside each other. The others' tests go wherever there is room."""


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The groups first: what is long and in one piece is not to be the last to start."""
    for item in items:
        group = GROUPS.get(item.path.relative_to(Path(__file__).parent).parts[0])
        if group is not None:
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)


@pytest.fixture(scope="session", autouse=True)
def own_machine_lock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Studies of these tests neither wait for nor disturb those of others on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "AUTOTUNE_LOCK_FOLDER", str(tmp_path_factory.mktemp("locks")))
        yield


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Small tensors gain nothing from more, and on a busy machine threads wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
