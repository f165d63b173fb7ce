"""What is kept as a study's answer: with the circumstances that its trials don't show."""

from dataclasses import replace

from autotune.model import BestConfiguration, Study
from autotune.storage import Store


def keep_answer(
    store: Store, study: Study, best: BestConfiguration, shared_with: tuple[str, ...]
) -> BestConfiguration:
    """Save `best`, found by `study`, with what the user held and who else used the machine."""
    evidence = replace(
        best.evidence,
        pinned=study.spec.pinned,
        only=study.spec.only,
        shared_with=tuple(dict.fromkeys([*best.evidence.shared_with, *shared_with])),
    )
    complete = replace(best, evidence=evidence)
    store.save_best(complete)
    return complete
