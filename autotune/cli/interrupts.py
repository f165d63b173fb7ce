"""What Ctrl-C does to a command that runs trials."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from types import FrameType


@contextmanager
def interruptible(say: Callable[[str], None], cancel: Event) -> Iterator[None]:
    """The first Ctrl-C, TERM or hang-up sets `cancel`; the second one is a KeyboardInterrupt."""

    def stop(number: int, frame: FrameType | None) -> None:
        del frame
        if cancel.is_set():
            raise KeyboardInterrupt
        cancel.set()
        say(f"{signal.Signals(number).name}: ending the running trial …")

    with handling(stop):
        yield


@contextmanager
def handling(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Within, Ctrl-C, TERM and hang-up do what `handler` does."""
    caught = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, handler) for number in caught}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
