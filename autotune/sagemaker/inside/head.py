"""The first host of a job: it runs the study's controller, and leaves the results."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

from autotune.model import StudyStatus
from autotune.sagemaker.inside import study
from autotune.sagemaker.inside.clock import JobClock
from autotune.sagemaker.inside.job import Job
from autotune.sagemaker.inside.layout import Layout
from autotune.sagemaker.inside.notice import SENT_S, Notice
from autotune.sagemaker.inside.results import send_results, write_answer, write_report
from autotune.sagemaker.inside.study import Ending
from autotune.storage import Store, default_url, open_store
from autotune.storage.objects import Objects, open_objects


def lead(
    job: Job,
    layout: Layout,
    variables: Mapping[str, str],
    stop: Notice,
    say: Callable[[str], None],
    address: str = "",
) -> int:
    """The whole study, or what is left of it: the exit code. Raises AutotuneError.

    `address` is of the Ray cluster on whose nodes its trials run, if they don't run here.
    """
    objects = open_objects(job.s3, field=f"{layout.job}: s3")
    with open_store(default_url(variables)) as store:
        ending = _study(job, layout, variables, stop, say, store, objects, address)
        _send_rest(store, objects, job, stop, say)
        write_answer(store, job.run_id, layout)
        study_now = store.study(job.run_id)
    has_begun = study_now is not None
    ending = replace(ending, reason=study_now.reason if study_now else "")
    # Of the two minutes that a job has which is stopped, the report may take one.
    if has_begun and not stop.is_set():
        write_report(job.run_id, layout, variables, say)
    if ending.failure:
        with suppress(OSError):
            layout.tell_failure(ending.failure)
    results = partial(send_results, objects, job.run_id, layout, ending, say)
    if not stop.bounded(results, SENT_S):
        say("not all results could be sent in time")
    return ending.code


def _send_rest(
    store: Store, objects: Objects, job: Job, stop: Notice, say: Callable[[str], None]
) -> None:
    def send() -> None:
        if problem := study.send_rest(store, objects, job.run_id):
            say(problem)

    if not stop.bounded(send, SENT_S):
        say("not all records could be sent in time; the next job runs those trials again")


def _study(
    job: Job,
    layout: Layout,
    variables: Mapping[str, str],
    stop: Notice,
    say: Callable[[str], None],
    store: Store,
    objects: Objects,
    address: str,
) -> Ending:
    status = study.restore(store, objects, job)
    if status is StudyStatus.FINISHED:
        say(f"run {job.run_id} has finished in an earlier job; its results are sent again")
        return Ending(code=0)
    clock = JobClock(job, objects, variables)
    words = study.command(
        job, goes_on=status is not None, address=address, time_limit_s=clock.left_s
    )
    with clock.running():
        ending = study.run(words, layout, variables, stop)
    if stop.is_set():
        stop.bounded(clock.keep, SENT_S)
    return ending
