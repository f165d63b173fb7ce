"""Runs what is launched: here, one after the other, or several at once in threads."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from types import TracebackType
from typing import Generic, Self, TypeVar

Result = TypeVar("Result")


class Crew(Generic[Result]):
    """Hands out what its calls return as they end."""

    def __init__(self, at_once: int) -> None:
        """With one at once, a call runs in the thread that starts it, whose Ctrl-C it gets."""
        self._pool = ThreadPoolExecutor(at_once, "lane") if at_once > 1 else None
        self._ended: SimpleQueue[Future[Result]] = SimpleQueue()

    def start(self, call: Callable[[], Result]) -> None:
        """Have it run; it has ended already if it ran here."""
        if self._pool is not None:
            self._pool.submit(call).add_done_callback(self._ended.put)
            return
        future: Future[Result] = Future()
        future.set_result(call())
        self._ended.put(future)

    def next(self) -> Result:
        """What one that was started returned, as soon as it has, or raised."""
        return self._ended.get().result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            # After an error the executor is closed, which ends the others.
            self._pool.shutdown(wait=error is None, cancel_futures=True)
