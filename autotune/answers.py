"""What is kept as a study's answer: with the circumstances that its trials don't show."""

from dataclasses import replace

from autotune.model import BestConfiguration, Study
from autotune.storage import Store


def shared_before(store: Store, study: Study) -> tuple[str, ...]:
    """Who used the machine during earlier invocations of `study`, as far as its answer says."""
    best = store.best(study.spec.target)
    return best.evidence.shared_with if best and best.run_id == study.run_id else ()


def keep_answer(
    store: Store, best: BestConfiguration, shared_with: tuple[str, ...]
) -> BestConfiguration:
    """`best`, with who else used the machine; saved again if anybody did."""
    if not shared_with:
        return best
    evidence = replace(best.evidence, shared_with=tuple(dict.fromkeys(shared_with)))
    complete = replace(best, evidence=evidence)
    store.save_best(complete)
    return complete
