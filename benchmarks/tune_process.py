"""Ray Tune in a process of its own, which can be ended when a trial of its takes too long.

    python benchmarks/tune_process.py ADDRESS DESCRIPTOR < REQUESTS

Each request is a line of JSON with the trial's `loop` and `folder`; its answer goes to DESCRIPTOR.
What such a process has on the cluster ends with it. Needs the extra `ray`; for `trial_overhead.py`.
"""

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import ray_trials

from autotune.model import Measurement, TrialSpec, decode, encode

START_LIMIT_S = 300.0
"""For a process to import Ray and PyTorch, and to reach the cluster."""
_LOOPS = {"empty": ray_trials.empty_loop, "tiny": ray_trials.tiny_loop}


class TuneProcess:
    """The side that asks. Started with the first trial, and again after one that took too long."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._process: subprocess.Popen[bytes] | None = None
        self._answers = -1
        self._content = b""

    def run(
        self, loop: str, spec: TrialSpec, folder: Path, *, limit_s: float
    ) -> tuple[float, Measurement]:
        """As `run_trial`. Raises TimeoutError, and RuntimeError for a trial that failed."""
        if self._process is None:
            self._process = self._start()
            self._answer(START_LIMIT_S)
        request = {"loop": loop, "spec": encode(spec), "folder": str(folder)}
        assert self._process.stdin is not None  # noqa: S101 - for programmers
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        answer = self._answer(limit_s)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["seconds"], decode(Measurement, answer["measurement"])

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            os.close(self._answers)
            self._content = b""

    def _start(self) -> "subprocess.Popen[bytes]":
        self._answers, theirs = os.pipe()
        try:
            return subprocess.Popen(
                [sys.executable, __file__, self._address, str(theirs)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs],
            )
        finally:
            os.close(theirs)

    def _answer(self, limit_s: float) -> dict[str, Any]:
        """The next one. Raises TimeoutError, after which there is no process any more."""
        deadline = time.monotonic() + limit_s
        while b"\n" not in self._content:
            left_s = deadline - time.monotonic()
            chunk = b""
            if left_s > 0 and select.select([self._answers], [], [], left_s)[0]:
                chunk = os.read(self._answers, 2**16)
            if not chunk:
                self.close()
                raise TimeoutError(f"Ray Tune gave no answer within {limit_s:.0f} s")
            self._content += chunk
        line, _, self._content = self._content.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found


def main(address: str, descriptor: int) -> None:
    """Run one trial after the other."""

    def tell(**answer: Any) -> None:
        os.write(descriptor, json.dumps(answer).encode() + b"\n")

    with ray_trials.connected(address):
        tell()
        for line in sys.stdin:
            asked = json.loads(line)
            spec = decode(TrialSpec, asked["spec"])
            try:
                took_s, found = ray_trials.run_trial(
                    _LOOPS[asked["loop"]], spec, Path(asked["folder"])
                )
            except RuntimeError as error:
                tell(error=str(error))
            else:
                tell(seconds=took_s, measurement=encode(found))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
