"""What happens around the ranks: items 8, 12, 15 and 18 of the fault list, and SIGKILL at work."""

import os
import pty
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests import netns
from tests.faults.conftest import Home

STUDY = (
    "run", "--instance", "local", "--workload", "tiny", "--nproc", "2", "--strategy", "random",
    "--global-batch", "8", "--window", "0.05s", "--trials", "1",
)  # fmt: skip
QUICK = dict.fromkeys(range(3, 7), "step_exit_0_0")
"""The candidates fail at once, so that nothing is confirmed."""


def wait_for(condition: Callable[[], object], limit_s: float = 120) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def children(pid: int, module: str) -> list[int]:
    """Those of `pid` that run `python -m module`."""
    found = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in file.read_text().split():
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            found += [int(child)] if module.encode() in words else []
    return found


def folders(home: Home) -> list[str]:
    return sorted(path.name for path in home.path.glob("data/runs/*/trial-*"))


def test_the_processes_that_fork_and_guard_ranks_may_be_killed(home: Home) -> None:
    """There is no other node agent on one machine."""
    faults = dict.fromkeys(range(4, 8), "step_exit_0_0")  # trial 0 is launched again as 1
    home.plant("controller_faults:plant", {0: "step_sleep_2", **faults})
    with home.start(*STUDY) as controller:
        wait_for(lambda: list(home.path.glob("data/runs/*/trial-0000/rank-1.log")))
        (parent,) = children(controller.pid, "autotune.trainers.warm_parent")
        (warden,) = children(controller.pid, "autotune.executors.warden")
        os.kill(warden, signal.SIGKILL)
        os.kill(parent, signal.SIGKILL)
        _, stderr = controller.communicate(timeout=240)
        assert controller.returncode == 0, stderr
    first, *others = home.trials()
    assert first["outcome"] == "environment"
    assert f"pid {parent}, was ended by SIGKILL, and its ranks with it" in first["reason"]
    assert [trial["outcome"] for trial in others][:3] == ["completed"] * 3
    assert home.processes() == []


@pytest.mark.parametrize("start", [(), ("--cold",)], ids=["warm", "cold"])
def test_a_killed_controller_takes_ranks_and_their_children_with_it(
    home: Home, start: tuple[str, ...]
) -> None:
    home.plant("controller_faults:plant", {0: "step_stubborn_family_1"})
    temporary = home.path / "temporary"
    temporary.mkdir()
    home.environment["TMPDIR"] = str(temporary)
    with home.start(*STUDY, *start) as controller:
        # Two children that mind neither TERM nor the end of their parent.
        wait_for(lambda: len(sleepers(home)) == 2)
        controller.kill()
        controller.communicate()
    home.wait_until_alone(10)
    assert [path for path in temporary.iterdir() if path.name.startswith("autotune-")] == []


def sleepers(home: Home) -> list[int]:
    return [pid for pid in home.processes() if b"SIG_IGN" in command_of(pid)]


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_the_shell_closes(home: Home) -> None:
    home.plant("controller_faults:plant", {1: "step_stubborn_family_1"})
    terminal, side = pty.openpty()
    setsid = ["setsid", "--ctty", "--wait"]
    with home.start(*STUDY, prefix=setsid, stdin=side, stdout=side, stderr=side) as shell:
        os.close(side)
        os.set_blocking(terminal, False)
        wait_for(lambda: len(sleepers(home)) == 2 or drain(terminal))
        os.close(terminal)  # the kernel hangs up on whoever had this terminal
        shell.wait(timeout=60)
    home.wait_until_alone(10)
    trials = home.trials()
    assert [trial["outcome"] for trial in trials] == ["completed", "cancelled"]
    runs = home.call("runs").stdout
    assert "interrupted" in runs


def drain(terminal: int) -> bool:
    """Read what was printed, as a terminal does, so that nobody waits for it."""
    with suppress(BlockingIOError):
        os.read(terminal, 2**16)
    return False


CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
/* An hour ahead in every other second of the monotonic clock, a day behind in the others. */
static long jump(void) {
    struct timespec now;
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    real(CLOCK_MONOTONIC, &now);
    return now.tv_sec % 2 ? 3600 : -86400;
}
int clock_gettime(clockid_t id, struct timespec *now) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, now);
    if (id == CLOCK_REALTIME) now->tv_sec += jump();
    return result;
}
int gettimeofday(struct timeval *now, void *zone) {
    int (*real)(struct timeval *, void *) = dlsym(RTLD_NEXT, "gettimeofday");
    int result = real(now, zone);
    now->tv_sec += jump();
    return result;
}
time_t time(time_t *now) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (now) *now = precise.tv_sec;
    return precise.tv_sec;
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_the_clock_jumps(home: Home) -> None:
    """Every second, by an hour or a day, for all processes of a study: they see another clock."""
    (home.path / "clock.c").write_text(CLOCK)
    library = home.path / "clock.so"
    compile_ = ["cc", "-shared", "-fPIC", "-O", "-o", library, home.path / "clock.c", "-ldl"]
    subprocess.run(compile_, check=True)
    home.plant("controller_faults:plant", QUICK)
    home.call(*STUDY, prefix=["env", f"LD_PRELOAD={library}"])
    trials = home.trials()
    assert [trial["outcome"] for trial in trials[:3]] == ["completed"] * 3
    assert all(0 < trial["seconds"] < 200 for trial in trials)
    for trial in trials[:3]:
        assert all(0 < window["seconds"] < 100 for window in trial["measurement"]["windows"])


@pytest.fixture
def inside() -> Iterator[list[str]]:
    """What runs a command in a network of its own."""
    name = f"autotune-ports-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        command = ["ip", "netns", "exec", name]
        subprocess.run([*command, "ip", "link", "set", "lo", "up"], check=True)
        yield command
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)


needs_netns = pytest.mark.skipif(bool(netns.why_not()), reason=netns.why_not())


@pytest.mark.long
@pytest.mark.netns
@needs_netns
def test_ports_are_rare(home: Home, inside: list[str]) -> None:
    """The kernel gives out 32, of which 29500 is taken: PyTorch's usual one."""
    narrow(inside, 29500, 29531)
    home.plant("controller_faults:plant", QUICK)
    home.call(*STUDY, prefix=[*inside, "python3", "-c", TAKE, "29500"])
    assert [trial["outcome"] for trial in home.trials()[:3]] == ["completed"] * 3


@pytest.mark.long
@pytest.mark.netns
@needs_netns
def test_one_port_is_free(home: Home, inside: list[str]) -> None:
    """Ranks can't meet: connections to the rendezvous need ports too. Nobody blames a candidate."""
    narrow(inside, 29500, 29501)
    home.plant("controller_faults:plant", QUICK)
    home.call(*STUDY, prefix=[*inside, "python3", "-c", TAKE, "29500"], expect=1, limit_s=290)
    assert {trial["outcome"] for trial in home.trials()} == {"environment"}
    assert home.processes() == []


TAKE = """
import os, socket, subprocess, sys
taken = socket.create_server(("0.0.0.0", int(sys.argv[1])))
sys.exit(subprocess.run(sys.argv[2:]).returncode)
"""


def narrow(inside: list[str], first: int, last: int) -> None:
    """Let the kernel give out no other ports."""
    path = "/proc/sys/net/ipv4/ip_local_port_range"
    subprocess.run([*inside, "sh", "-c", f"echo {first} {last} > {path}"], check=True)
