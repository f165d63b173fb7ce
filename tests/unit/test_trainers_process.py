"""What a rank knows of its own process, and what a parent of ranks must not do."""

import mmap
import os
import subprocess
import sys
import time
from pathlib import Path
from queue import Queue
from threading import Event, Thread

from autotune.trainers.process import (
    children,
    forget_peak_memory,
    now_s,
    peak_memory_bytes,
    started_s,
)


def test_age_counts_from_the_fork_of_a_process() -> None:
    program = (
        "import os, time\n"
        "from autotune.trainers.process import now_s, started_s\n"
        "time.sleep(0.5)\n"
        "if os.fork() == 0:\n"
        "    print('child', now_s() - started_s(), flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "print('parent', now_s() - started_s())\n"
    )
    started = time.monotonic()
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    ages = {name: float(age) for name, age in (line.split() for line in output.splitlines())}
    assert 0.5 <= ages["parent"] <= time.monotonic() - started + 0.02
    assert ages["child"] <= ages["parent"] - 0.4


def test_age_is_this_processs() -> None:
    before = now_s() - started_s()
    time.sleep(0.05)
    assert 0.03 < now_s() - started_s() - before < 5


def test_the_peak_of_memory_stays_when_memory_is_given_back() -> None:
    # More than anything earlier tests may have held and given back.
    size = peak_memory_bytes() + (32 << 20)
    block = bytearray(size)
    block[:: os.sysconf("SC_PAGE_SIZE")] = b"x" * len(block[:: os.sysconf("SC_PAGE_SIZE")])
    del block
    assert peak_memory_bytes() >= size


def test_a_peak_can_be_forgotten() -> None:
    size = peak_memory_bytes() + (64 << 20)
    block = mmap.mmap(-1, size)  # given back at once when it is closed
    block[:: os.sysconf("SC_PAGE_SIZE")] = b"x" * len(range(0, size, os.sysconf("SC_PAGE_SIZE")))
    block.close()
    before = peak_memory_bytes()
    assert before >= size
    forget_peak_memory()
    assert peak_memory_bytes() < before - (32 << 20)


def test_pages_of_files_are_no_memory_of_a_process(tmp_path: Path) -> None:
    # A library's pages are shared, and given back before memory runs out.
    size = 64 << 20
    (tmp_path / "library").write_bytes(b"x" * size)
    program = (
        "import mmap, sys\n"
        "from autotune.trainers.process import peak_memory_bytes\n"
        "before = peak_memory_bytes()\n"
        "with open(sys.argv[1], 'rb') as file:\n"
        "    pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)\n"
        "read = sum(pages[i] for i in range(0, len(pages), 4096))\n"
        "between = peak_memory_bytes()\n"
        "own = bytes(pages)\n"
        "print(between - before, peak_memory_bytes() - before)\n"
    )
    output = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "library")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    files, own = map(int, output.split())
    assert files < 0.1 * size
    assert 0.9 * size < own < 1.1 * size


def test_a_forked_process_has_its_parents_memory_and_not_its_peak() -> None:
    program = (
        "import os\n"
        "from autotune.trainers.process import peak_memory_bytes\n"
        "kept = b'x' * (64 << 20)\n"
        "gone = b'x' * (128 << 20)\n"
        "del gone\n"
        "if os.fork() == 0:\n"
        "    print(peak_memory_bytes(), flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "print(peak_memory_bytes())\n"
    )
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    child, parent = map(int, output.split())
    assert 64 << 20 < child < 100 << 20
    assert parent > 192 << 20


def test_preloading_leaves_a_process_that_can_fork() -> None:
    program = (
        "import os, sys\n"
        "from autotune.trainers.preload import preload\n"
        "preload()\n"
        "import torch\n"
        "print(len(os.listdir('/proc/self/task')), torch.cuda.is_initialized())\n"
        "before = set(sys.modules)\n"
        "torch.optim.AdamW([torch.nn.Parameter(torch.ones(1))])\n"
        "print(len(set(sys.modules) - before))\n"
    )
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    output = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert output.split() == ["1", "False", "0"]


def test_children_of_all_threads_are_children() -> None:
    """The kernel lists them by the thread that started them."""
    go_on, started = Event(), Queue[int]()

    def start() -> None:
        with subprocess.Popen(["sleep", "60"]) as process:
            started.put(process.pid)
            go_on.wait(60)
            process.kill()

    thread = Thread(target=start)
    thread.start()
    try:
        assert started.get(timeout=60) in children()
    finally:
        go_on.set()
        thread.join()
