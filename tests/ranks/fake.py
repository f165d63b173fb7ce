"""A stand-in for the rank program: `python fake.py BEHAVIOUR SPEC.json`, the standard library only.

A behaviour is a function of this file, run by every rank; it looks at RANK itself.
"""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

RANK = int(os.environ["RANK"])
WORLD = int(os.environ["WORLD_SIZE"])
SPEC = Path(sys.argv[2])
CHANNEL = socket.socket(fileno=int(os.environ["AUTOTUNE_CHANNEL_FD"]))
LINES = CHANNEL.makefile("rb")


def send(type_: str, **fields: object) -> None:
    CHANNEL.sendall(json.dumps({"v": 1, "type": type_, **fields}).encode() + b"\n")


def started() -> None:
    send("started", rank=RANK, pid=os.getpid(), host="here")


def failed(kind: str, message: str) -> None:
    send("failed", rank=RANK, kind=kind, exception="Error", message=message, traceback="")


def window(index: int) -> dict[str, object]:
    return {"index": index, "steps": 2, "samples": 8, "seconds": 0.5}


def finished(windows: int) -> None:
    send(
        "finished",
        measurement={
            "windows": [window(i) for i in range(windows)],
            "warmup_steps": 1,
            "settled": True,
            "communication_share": None,
            "build_s": 0.1,
            "warmup_s": 0.1,
            "losses": [1.0],
            "gradient_norms": [1.0],
            "peak_memory_bytes": [1] * WORLD,
            "allocator_retries": 0,
            "parameters": 1,
            "effective": {"threads": os.environ["OMP_NUM_THREADS"]},
            "versions": {},
        },
    )


def pid_file(name: str) -> Path:
    return SPEC.parent / f"{name}-{RANK}.pid"


def wait_forever() -> None:
    """As in a collective; ends when the launcher has gone, like the real program."""
    started()
    pid_file("waiting").write_text(str(os.getpid()))
    if LINES.readline() == b"":
        sys.exit(1)
    time.sleep(600)


def complete() -> None:
    started()
    if RANK == 0:
        plan = json.loads(SPEC.read_text())["plan"]
        done = 0
        for index in range(plan["windows"]):
            send("window", window=window(index))
            done += 1
            if json.loads(LINES.readline())["verdict"] == "stop":
                break
        finished(done)


def windows_forever() -> None:
    """Until the launcher has gone, which the end of the channel tells."""
    started()
    while RANK == 0:
        send("window", window=window(0))
        if LINES.readline() == b"":
            sys.exit(1)
        time.sleep(0.01)
    LINES.readline()


def windows_with_children() -> None:
    """Each rank has two children that mind neither TERM nor its end, one of them on its own."""
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    for own_session in (False, True):
        subprocess.Popen([sys.executable, "-c", code], start_new_session=own_session)
    (SPEC.parent / f"born-{RANK}").touch()
    while len(list(SPEC.parent.glob("born-*"))) < WORLD:
        time.sleep(0.01)
    windows_forever()


def asked() -> None:
    """What the trial's variables name: for an executor whose program stays the same."""
    globals()[os.environ["FAKE_BEHAVIOUR"]]()


def print_environment() -> None:
    for name, value in os.environ.items():
        print(f"{name}={value}")
    complete()


def environment() -> None:
    (SPEC.parent / f"environment-{RANK}.json").write_text(json.dumps(dict(os.environ)))
    (SPEC.parent / f"descriptors-{RANK}.json").write_text(json.dumps(os.listdir("/proc/self/fd")))
    if RANK == 0:
        store = socket.socket(fileno=int(os.environ["AUTOTUNE_STORE_FD"]))
        assert store.getsockname() == ("127.0.0.1", int(os.environ["MASTER_PORT"]))
        store.settimeout(10)
        for _ in range(WORLD - 1):
            store.accept()[0].close()
    else:
        address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
        socket.create_connection(address, timeout=10).close()
    complete()


def look() -> None:
    """What a rank can see of itself that another may have left."""
    handlers = {n: str(signal.getsignal(n) or 0) for n in signal.valid_signals()}
    status = Path("/proc/self/status").read_text().splitlines()
    seen = {
        "descriptors": sorted(map(open_file, os.listdir("/proc/self/fd"))),
        "handlers": handlers,
        "blocked": signal.pthread_sigmask(signal.SIG_BLOCK, []) == set(),
        "threads": len(os.listdir("/proc/self/task")),
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "umask": [line for line in status if line.startswith("Umask")],
        "signals": [line for line in status if line.startswith("Sig") and "SigQ" not in line],
        "cores": sorted(os.sched_getaffinity(0)),
        "nice": os.nice(0),
        "leads": [os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid()],
        "arguments": sys.argv,
        "path": sys.path,
        "module": __name__,
        "streams": [(s.encoding, s.errors, s.line_buffering) for s in (sys.stdout, sys.stderr)],
    }
    draws = [random.random()]
    if "numpy.random" in sys.modules:
        draws.append(sys.modules["numpy.random"].random())
    (SPEC.parent / f"seen-{RANK}.json").write_text(json.dumps({"seen": seen, "draws": draws}))
    # What the next trial must not see.
    os.environ["LEFT"] = os.environ["HOME"] = "/left"
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    os.chdir("/")
    os.umask(0)
    os.nice(1)
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    random.seed(7)
    os.open("/dev/null", os.O_RDONLY)
    complete()


def open_file(number: str) -> str:
    """Which descriptor it is and what of: the numbers of sockets differ from trial to trial."""
    try:
        return f"{number} {os.readlink(f'/proc/self/fd/{number}').partition(':[')[0]}"
    except FileNotFoundError:  # the listing's own
        return "listing"


def wait_unless_1() -> None:
    if RANK != 1:
        wait_forever()
    started()


def one_raises() -> None:
    wait_unless_1()
    failed("error", "boom in the model")
    sys.exit(1)


def one_diverges_and_the_other_loses_it() -> None:
    started()
    ready = SPEC.parent / "ready"
    if RANK == 0:
        while not ready.exists():
            time.sleep(0.01)
        failed("collective", "Connection closed by peer")
        sys.exit(1)
    ready.touch()
    time.sleep(0.3)
    failed("non_finite", "loss is nan")
    sys.exit(1)


def one_segfaults() -> None:
    wait_unless_1()
    os.kill(os.getpid(), signal.SIGSEGV)


def one_is_killed() -> None:
    wait_unless_1()
    os.kill(os.getpid(), signal.SIGKILL)


def import_error() -> None:
    print("Traceback (most recent call last):\nModuleNotFoundError: No module named 'torch'")
    sys.exit(1)


def one_waits_in_vain() -> None:
    started()
    if RANK == 0:
        failed("collective", "timed out after 60 s")
        sys.exit(1)
    time.sleep(600)


def no_result() -> None:
    started()


def one_leaves() -> None:
    wait_unless_1()


def ignore_term() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    wait_forever()


def leave_children() -> None:
    leave_children_only()
    complete()


def leave_children_only() -> None:
    """One child in the rank's group, one in a group of its own, neither of which minds TERM."""
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    for name, options in (("child", {}), ("grouped", {"process_group": 0})):
        child = subprocess.Popen([sys.executable, "-c", code], **options)
        pid_file(name).write_text(str(child.pid))


def windows_beside_children() -> None:
    leave_children_only()
    windows_forever()


def wait_with_children() -> None:
    leave_children_only()
    wait_forever()


def never_start() -> None:
    time.sleep(600)


def one_never_starts() -> None:
    if RANK == 0:
        started()
    time.sleep(600)


def garbage() -> None:
    wait_unless_1()
    CHANNEL.sendall(b"\x00\xff{]\n")
    time.sleep(600)


def wrong_types() -> None:
    wait_unless_1()
    CHANNEL.sendall(b'{"v": 1, "type": []}\n')
    time.sleep(600)


def huge() -> None:
    wait_unless_1()
    for _ in range(17):
        CHANNEL.sendall(b"x" * 2**20)
    time.sleep(600)


def half_a_line() -> None:
    wait_unless_1()
    CHANNEL.sendall(b'{"v": 1, "type": "sta')


def not_its_message() -> None:
    wait_unless_1()
    finished(1)
    time.sleep(600)


def flood() -> None:
    """Windows without ever reading an answer."""
    started()
    while RANK == 0:
        send("window", window=window(0))
    time.sleep(600)


def slowly() -> None:
    """A message in pieces, and two in one piece."""
    started()
    if RANK == 0:
        line = json.dumps({"v": 1, "type": "window", "window": window(0)}).encode() + b"\n"
        for byte in line:
            CHANNEL.sendall(bytes([byte]))
            time.sleep(0.001)
        CHANNEL.sendall(line + line)
        for _ in range(3):
            LINES.readline()
        finished(3)


def binary_log() -> None:
    started()
    os.write(1, b"\x1b[31mred\x1b[0m \xff\xfe\x00 end\n" * 10_000)
    os.write(2, b"last words\n")
    sys.exit(3)


def shut_down_badly() -> None:
    """Rank 0 has sent its result and left; the others break while they shut down."""
    complete()
    if RANK != 0:
        time.sleep(0.5)
        failed("collective", "Connection closed by peer")
        os.kill(os.getpid(), signal.SIGABRT)


def relay() -> None:
    """Runs trial after trial, and does in each what its id says."""
    spec = SPEC
    while True:
        started()
        print(f"runs {spec.parent.name} as {os.getpid()}, live: {os.environ.get('AUTOTUNE_LIVE')}")
        sys.stdout.flush()
        plan = json.loads(spec.read_text())
        if RANK == 0 and plan["trial_id"] == "fail":
            failed("out_of_memory", "no memory left")
            sys.exit(1)
        if RANK == 1 and plan["trial_id"] == "child":
            subprocess.Popen(["sleep", "600"])
        if RANK == 0:
            finished(plan["plan"]["windows"])
        if "AUTOTUNE_LIVE" not in os.environ:
            return
        if not (RANK == 1 and plan["trial_id"] == "leave"):
            send("ready", rank=RANK)
        line = LINES.readline()
        if not line:
            return
        following = json.loads(line)
        spec = Path(following["spec"])
        log = os.open(following["log"], os.O_WRONLY | os.O_APPEND)
        os.dup2(log, 1)


def complete_and_note() -> None:
    """Notes in FAKE_FOLDER when it ran, and waits for what is to run beside it.

    With FAKE_DISTURBS, what runs beside another is half as fast.
    """
    folder, trial = Path(os.environ["FAKE_FOLDER"]), json.loads(SPEC.read_text())["trial_id"]
    note, began = folder / f"{trial}.json", time.time()
    note.write_text("null")
    is_beside = "beside" in trial
    while is_beside and len(list(folder.glob(f"{trial.rpartition('-')[0]}-*"))) < 2:
        time.sleep(0.01)
    if is_beside and "FAKE_DISTURBS" in os.environ:
        globals()["window"] = lambda index: {"index": index, "steps": 2, "samples": 8, "seconds": 1}
    time.sleep(0.1)
    complete()
    note.write_text(json.dumps([began, time.time()]))


def stay_after_result() -> None:
    complete()
    time.sleep(600)


globals()[sys.argv[1]]()
