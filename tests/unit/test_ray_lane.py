"""How long a group of Ray's nodes waits for others in the place of those that it has lost."""

from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from autotune.errors import ExecutorError
from autotune.executors.watch import Limits
from autotune.model import Outcome
from autotune.model.protocol import Verdict

pytest.importorskip("ray", reason="Ray (the extra `ray`) is not installed")

from autotune.executors.ray import lane as lanes
from autotune.executors.ray.actor import AgentOptions
from tests.ray_driver import launch


class Nowhere:
    """Nodes that can be had once; after that as long as it may is waited, in vain."""

    limits: list[float]

    def __init__(self, *asked: Any) -> None:
        limit_s = asked[3]
        self.limits.append(limit_s)
        if len(self.limits) > 1:
            raise ExecutorError("nothing is free")

    facts = ()

    def close(self) -> None:
        """Gives nothing back."""


@pytest.mark.parametrize(("wait_limit_s", "waited_s"), [(None, 120.0), (7.0, 7.0), (500.0, 120.0)])
def test_lost_nodes_are_waited_for_as_long_as_the_launch_may(
    wait_limit_s: float | None,
    waited_s: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Nowhere, "limits", [], raising=False)
    monkeypatch.setattr(lanes, "Placed", Nowhere)
    kind: Any = None
    lane = lanes.Lane(kind, 1, AgentOptions(), 30.0, Limits())
    lane.release()
    asked = replace(launch("", tmp_path), wait_limit_s=wait_limit_s)
    end = lane.run(asked, lambda _: Verdict.GO, Event(), replace_s=120.0)
    assert end.outcome is Outcome.PLACEMENT
    assert Nowhere.limits == [30.0, waited_s]
