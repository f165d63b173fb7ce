"""What is kept as a study's answer: with the circumstances that its trials don't show."""

from dataclasses import replace

from autotune.errors import UnreadableError
from autotune.loop.records import StudyRecords
from autotune.model import BestConfiguration, Study
from autotune.storage import Store


def shared_before(store: Store, study: Study) -> tuple[str, ...]:
    """Who used the machine during earlier invocations of `study`, as far as its answer says."""
    try:
        best = store.best(study.spec.target)
    except UnreadableError:
        return ()  # it is going to be replaced
    return best.evidence.shared_with if best and best.run_id == study.run_id else ()


def keep_answer(
    store: StudyRecords, best: BestConfiguration, shared_with: tuple[str, ...]
) -> BestConfiguration:
    """`best`, with who else used the machine; saved again if anybody did."""
    if not shared_with:
        return best
    evidence = replace(best.evidence, shared_with=tuple(dict.fromkeys(shared_with)))
    complete = replace(best, evidence=evidence)
    store.save_best(complete)
    return complete
