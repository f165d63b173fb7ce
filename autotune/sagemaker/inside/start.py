"""The entrypoint of a training job's container: installs what is missing, and starts autotune.

On the standard library alone, and run as a file, since autotune may not be installed yet:

    python3 /opt/ml/input/data/code/start.py

It stays the container's first process: it passes signals on, and reaps what others leave behind.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

HERE = Path(__file__).resolve().parent
ROOT = Path(os.environ.get("AUTOTUNE_SAGEMAKER_ROOT") or "/opt/ml")
WORK = ROOT / "autotune" / "work"
_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_LAST_LINES = 12
_NO_NEWS = ("Requirement already satisfied", "Looking in ")


class InstallError(Exception):
    """pip failed; with the end of what it said."""


class StoppedError(Exception):
    """The container was told to end; with the signal's name."""


def main() -> int:
    """Install, run, and give the exit code that the container ends with."""
    for number in _PASSED_ON:
        # The first process of a container has no default for them: they would be ignored.
        signal.signal(number, stop)
    # So that what comes now counts as the job's time; inside/clock.py reads it.
    os.environ["AUTOTUNE_SAGEMAKER_STARTED"] = repr(time.monotonic())
    try:
        install()
        copy_work()
    except StoppedError as error:
        tell_failure(f"stopped by {error} while the container was set up; nothing was started")
        return 128 + signal.SIGTERM
    except (InstallError, OSError) as error:
        tell_failure(f"autotune couldn't be set up in the container: {error}")
        return 1
    return supervise([sys.executable, "-m", "autotune.sagemaker.inside"])


def stop(number: int, frame: "FrameType | None") -> None:
    """What a signal does before autotune runs; pip is ended with it. Raises StoppedError."""
    del frame
    raise StoppedError(signal.Signals(number).name)


def install() -> None:
    """Have pip install what isn't there. It asks no index if all is."""
    # Without its dependencies: one of them is torch, which has to stay the container's own.
    wheels = [str(path) for path in sorted(HERE.glob("autotune_train-*.whl"))]
    requirements = HERE / "requirements.txt"
    if requirements.exists():
        pip("install", "--requirement", str(requirements))
    if wheels:
        pip("install", "--no-deps", "--no-index", *wheels)


def pip(*words: str) -> None:
    """Raises InstallError."""
    command = [sys.executable, "-m", "pip", *words, "--no-input", "--disable-pip-version-check"]
    variables = {**os.environ, "PIP_BREAK_SYSTEM_PACKAGES": "1", "PIP_ROOT_USER_ACTION": "ignore"}
    done = subprocess.run(
        command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", check=False,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if not line.startswith(_NO_NEWS)]
    sys.stderr.write("".join(f"{line}\n" for line in lines))
    sys.stderr.flush()
    if done.returncode:
        raise InstallError("\n".join(lines[-_LAST_LINES:]))


def copy_work() -> None:
    """The user's files, where the study may also write. What an earlier start left stays."""
    WORK.mkdir(parents=True, exist_ok=True)
    if (HERE / "work").is_dir():
        shutil.copytree(HERE / "work", WORK, dirs_exist_ok=True)


def supervise(command: "list[str]") -> int:
    """Run `command` as the first process of a container has to: its exit code."""
    path = os.pathsep.join(filter(None, [str(WORK), os.environ.get("PYTHONPATH", "")]))
    children: list[subprocess.Popen[bytes]] = []
    received: list[int] = []

    def pass_on(number: int, frame: "FrameType | None") -> None:
        del frame
        received.append(number)
        for child in children:
            if child.returncode is None:
                os.kill(child.pid, number)

    for number in _PASSED_ON:
        signal.signal(number, pass_on)
    children.append(subprocess.Popen(command, cwd=WORK, env={**os.environ, "PYTHONPATH": path}))
    # Those that came before the child was there; once more does no harm.
    for early in list(received):
        os.kill(children[0].pid, early)
    return wait_for(children[0])


def wait_for(child: "subprocess.Popen[bytes]") -> int:
    """Until it has ended; orphans that fall to this process are reaped meanwhile."""
    while True:
        pid, status = os.wait()
        if pid == child.pid:
            code = os.waitstatus_to_exitcode(status)
            child.returncode = code
            return code if code >= 0 else 128 - code


def tell_failure(text: str) -> None:
    """For SageMaker's FailureReason, and for the log."""
    sys.stderr.write(f"error: {text}\n")
    path = ROOT / "output" / "failure"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text[:1024], encoding="utf-8")
    except OSError as error:
        sys.stderr.write(f"error: {path}: {error.strerror}\n")


if __name__ == "__main__":
    sys.exit(main())
