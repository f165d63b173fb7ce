"""The search in Ray Tune experiments of your own; docs/ray.md has an example.

    search = AutotuneSearcher(workload="bert-large", instance="p4d.24xlarge", nodes=2)
    tuner = tune.Tuner(
        train, tune_config=tune.TuneConfig(search_alg=search, scheduler=search.scheduler(), ...)
    )

Each trial gets `settings` and `environment` in its config, and reports `samples_per_second` for
each window of steps that it measures.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autotune.compose import build_spec
from autotune.errors import UserError
from autotune.loop.decision import Decision
from autotune.loop.stepwise import Stepwise
from autotune.machines import LOCAL, describe_place
from autotune.model import DeviceKind, Outcome, StudySpec, TrainingSettings, decode, encode
from autotune.model.protocol import Verdict
from autotune.request import Request, Spaces, build_space, build_target
from autotune.strategies import build_strategy
from autotune.user_workload import find_user_workload

try:
    from ray.tune.schedulers import FIFOScheduler, TrialScheduler
    from ray.tune.search import Searcher
except ImportError:
    raise UserError(
        "autotune.ray needs Ray Tune, which isn't installed",
        hint="pip install 'autotune-train[ray]'",
    ) from None

METRIC = "samples_per_second"
LOSS = "loss"
MANY = 10**9
"""A number of trials that Tune never reaches: the search ends by itself."""


def settings_of(config: Mapping[str, Any]) -> TrainingSettings:
    """What a trial is to train with, of the config that it got."""
    return decode(TrainingSettings, config["settings"])


class AutotuneSearcher(Searcher):
    """Has Ray Tune run a whole study: baseline, search, contest and confirmation.

    Give `TuneConfig` a `num_samples` of `autotune.ray.MANY`: the study ends by itself. Up to
    `max_concurrent_trials` of the search are under way at once; what is compared runs alone.
    """

    def __init__(
        self,
        *,
        workload: str = "tiny",
        instance: str = LOCAL,
        nodes: int = 1,
        ranks_per_node: int | None = None,
        global_batch: int | None = None,
        pinned: Mapping[str, str] | None = None,
        only: Sequence[str] = (),
        space: str = "default",
        strategy: str = StudySpec.search,
        trials: int | None = None,
        seed: int = 0,
        allow_lossy: bool = False,
        metric: str = METRIC,
    ) -> None:
        """`instance` is this machine, or one of the catalogue that trials will run on.

        The others are what `autotune run` has as options: `pinned` is --set, `ranks_per_node` is
        --nproc. `metric` is what trials report, in samples/s; a `loss`, if they report it, has to
        be the same with all settings. Raises UserError for what can't be.
        """
        super().__init__(metric=metric, mode="max")
        request = Request(
            instance=instance,
            workload=workload,
            own_workload=find_user_workload(workload),
            nproc=ranks_per_node,
            global_batch=global_batch,
            max_trials=trials if trials is not None else MANY,
            seed=seed,
            strategy=strategy,
            pinned=dict(pinned or {}),
            only=tuple(only),
            space=Spaces.of(space),
            allow_lossy=allow_lossy,
            assumed={"nodes": str(nodes)},
        )
        place = describe_place(instance)
        target = build_target(request, place.machine)
        self.space = build_space(request, place, target)
        self._spec = build_spec(request, target, self.space, place)
        self.study = self._new_study()

    def scheduler(self) -> "AutotuneScheduler":
        """What stops trials that have lost, and those that are known well enough."""
        return AutotuneScheduler(self)

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """The next trial's config: `settings`, `environment` and `phase`."""
        step = self.study.suggest(trial_id)
        if step is None:
            return Searcher.FINISHED if self.study.is_over else None
        return {
            "settings": encode(self.space.settings(step.candidate)),
            "environment": dict(self.space.environment(step.candidate)),
            "phase": step.phase.value,
        }

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        self.verdict(trial_id, result)

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        if trial_id not in self.study.pending:
            return
        if result is not None and not error:
            self.verdict(trial_id, result)
        self.study.complete(trial_id, Outcome.CRASHED if error else None)

    def verdict(self, trial_id: str, result: Mapping[str, Any]) -> Verdict:
        """What becomes of a trial after a window that it reports."""
        rate = result.get(self.metric)
        if trial_id not in self.study.pending or not rate:
            return Verdict.GO
        number = int(result.get("training_iteration", 0))
        return self.study.window(trial_id, number, float(rate), result.get(LOSS))

    def decision(self) -> Decision:
        """What the study says, once Tune has ended."""
        return self.study.decision()

    def best_config(self) -> dict[str, Any]:
        """The config to train with from now on: the winner's, or the baseline's."""
        candidate = self.decision().candidate
        return {
            "settings": encode(self.space.settings(candidate)),
            "environment": dict(self.space.environment(candidate)),
        }

    def save(self, checkpoint_path: str) -> None:
        Path(checkpoint_path).write_text(json.dumps(self.study.state()), encoding="utf-8")

    def restore(self, checkpoint_path: str) -> None:
        self.study = self._new_study()
        self.study.restore(json.loads(Path(checkpoint_path).read_text(encoding="utf-8")))

    @property
    def device(self) -> DeviceKind:
        """What the trials compute on."""
        return self.space.facts.device

    def _new_study(self) -> Stepwise:
        strategy = build_strategy(self._spec.search, self.space, self._spec.seed)
        return Stepwise(self._spec, self.space, strategy)

    def __getstate__(self) -> dict[str, Any]:
        """Tune pickles searchers; a strategy may hold what can't be."""
        return {**vars(self), "study": self.study.state()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.study = self._new_study()
        self.study.restore(state["study"])


class AutotuneScheduler(FIFOScheduler):
    """Ends trials by the study's racing: those that have lost, and those known well enough."""

    def __init__(self, searcher: AutotuneSearcher) -> None:
        super().__init__()
        self._searcher = searcher

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        verdict = self._searcher.verdict(trial.trial_id, result)
        stops: str = TrialScheduler.STOP
        goes_on: str = TrialScheduler.CONTINUE
        return goes_on if verdict is Verdict.GO else stops
