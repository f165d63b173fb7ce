"""Lines that look like failures and aren't, and logs that nobody would write."""

import random
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.diagnosis import Diagnosis, Log, diagnose
from autotune.diagnosis.catalogue import SIGNATURES, Catalogue
from autotune.diagnosis.lines import LONGEST_LINE, Line, lines
from autotune.diagnosis.scan import MOST_KEPT, Scan
from autotune.diagnosis.signature import GAP, holds

HARMLESS = """
clip_grad_norm_(parameters, max_norm=1.0, error_if_nonfinite=False)
INFO:torch.distributed.elastic.multiprocessing.errors.error_handler: ErrorHandler installed
2026-03-12 14:17:56 INFO root: 0 errors, 0 failures, timeout 600 s
step 3 eval_error: 0.031 loss 3.41
node-a:12:34 [0] NCCL INFO NET/Plugin: Failed to find ncclCollNetPlugin symbol (>= v5).
node-a:12:34 [0] NCCL INFO NET/Plugin: No plugin found (libnccl-net.so), using internal
node-a:12:34 [0] NCCL INFO NET/OFI Setting FI_OPT_EFA_SENDRECV_IN_ORDER not supported.
node-a:12:34 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0
node-a:12:34 [0] NCCL INFO Call to connect returned Connection refused, retrying
node-a:12:34 [0] NCCL INFO [Service thread] Connection closed by localRank 1
node-a:12:34 [0] NCCL INFO comm 0x55 rank 0 nranks 2 cudaDev 0 busId 1000 - Abort COMPLETE
node-a:12:34 [0] misc/cudawrap.cc:36 NCCL WARN Cuda driver version 12040, no symbol found
node-a:12:34 [0] nccl_net_ofi_init:1444 NCCL WARN NET/OFI Only EFA provider is supported
node-a:12:34 [0] get_provider:180 NCCL WARN NET/OFI No eligible providers were found
node-a:12:34 [0] init.cc:60 NCCL WARN NCCL_NTHREADS is not a multiple of 32, using 256
[W1129 14:17:56.1 socket.cpp:752] [c10d] The client socket cannot be initialized (errno: 97)
[W socket.cpp:601] [c10d] The client socket has failed to connect to [localhost]:29500 (errno: 99)
[W1129 14:17:56.1 ProcessGroupNCCL.cpp:1496] Warning: destroy_process_group() was not called
WARNING:root:CUDA out of memory, trying again with a batch of 16
2026-03-12 14:17:56,123 - WARNING - no space left on device? no: 3 GB are free
UserWarning: Error handling is experimental
/x/warnings.py:3: UserWarning: CUDA out of memory is handled by this hook
torch.cuda.amp.GradScaler: 3 optimizer steps were skipped
loss: nano-scale 0.3, information 3, infinite loop guard on
{"on_error": "raise", "max_errors": 10, "ErrorHandler": "default"}
error_file: <N/A>
exit code 0; exitcode : 0 (pid: 3); failed: 0
restart_on_failure=True, timeout=1800, killed=False
NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15
[ 12.345678] nvidia-uvm: Loaded the UVM driver, major device number 510
""".strip().splitlines()


@pytest.mark.parametrize("line", HARMLESS)
def test_a_word_does_not_make_a_failure(line: str) -> None:
    assert diagnose([Log.of(line)]) is None
    for prefix in ("[rank0]: ", "0: ", "[default0]:"):
        assert diagnose([Log.of(prefix + line)]) is None


def test_all_of_them_together_are_harmless() -> None:
    assert diagnose([Log.of("\n".join(HARMLESS))]) is None


def test_a_cause_in_passing_counts_once_something_failed() -> None:
    warned = "WARNING:root:CUDA out of memory, trying again with a batch of 16"
    found = diagnose([Log.of(f"{warned}\nFatal Python error: Segmentation fault")])
    assert found is not None
    assert found.signature == "cuda-out-of-memory"


def test_words_are_whole() -> None:
    assert holds("a cuda out of memory!", "out of memory")
    assert holds("xid (pci:1): 79, x", f"xid ({GAP}): 79")
    assert not holds("xid (pci:1): 791, x", f"xid ({GAP}): 79")
    assert not holds("about of memory", "out of memory")
    assert holds("nonan nan", "nan")
    assert not holds("b a", f"a{GAP}b")


def words() -> list[str]:
    """Everything that the patterns look for, so that random text comes close to all of it."""
    parts = [word for one in SIGNATURES for text in one.texts for word in text.split()]
    return sorted(
        {*parts, "[rank1]:", "[Rank 1]", "1:", "NCCL", "INFO", "WARN", "Failures:", "==="}
    )


@given(
    st.lists(
        st.one_of(
            st.sampled_from(words()),
            st.text(max_size=8),
            st.sampled_from(["\n", "\r", "\r\n", "\0", "\x1b[31m", "\x1b[", "\ud800", " ", "\t"]),
        ),
        max_size=60,
    )
)
@settings(max_examples=300, deadline=None)
def test_nothing_raises(parts: list[str]) -> None:
    for space in ("", " "):
        found = diagnose([Log.of(space.join(parts)), Log.of(space.join(reversed(parts)), rank=3)])
        assert found is None or is_sane(found)


@given(st.binary(max_size=2000))
@settings(max_examples=200, deadline=None)
def test_nothing_raises_on_garbage(raw: bytes) -> None:
    for encoding, errors in (("utf-8", "replace"), ("utf-8", "surrogateescape"), ("latin-1", "")):
        text = raw.decode(encoding, errors or "strict")
        found = diagnose([Log.of(text)])
        assert found is None or is_sane(found)


def is_sane(found: Diagnosis) -> bool:
    return len(found.quote) <= 300 and len(found.cause) < 500 and found.line >= 1


@given(st.text(max_size=200))
@settings(max_examples=200, deadline=None)
def test_the_index_finds_what_trying_all_would(noise: str) -> None:
    catalogue = Catalogue()
    random_ = random.Random(noise)
    parts = [text for one in random_.sample(SIGNATURES, 2) for text in one.texts[:1]]
    line = " ".join([noise, *(part.replace(GAP, f" {noise} ") for part in parts)])
    plain = " ".join(line.lower().split())
    slow = next(
        (one for one in SIGNATURES if any(holds(plain, text.lower()) for text in one.texts)), None
    )
    assert catalogue.first(line) is slow


def test_what_is_kept_is_bounded() -> None:
    scan = Scan(Log.of("\n".join(f"[rank{n}]: Broken pipe [Rank {n}] x" for n in range(5000))))
    assert len(scan.findings) == MOST_KEPT
    assert len(scan.ranks) == MOST_KEPT


def test_lines_are_read_to_a_limit() -> None:
    (line,) = lines("x" * 10 * LONGEST_LINE)
    assert len(line.text) == LONGEST_LINE
    assert list(lines("a\n\n\r\n\0\n b\rc")) == [
        Line(number=1, text="a"),
        Line(number=5, text=" b"),
        Line(number=5, text="c"),
    ]


def test_the_end_of_a_huge_line_of_a_progress_bar_is_read() -> None:
    bar = "\r".join(f"{n} %" for n in range(100_000))
    found = diagnose([Log.of(f"{bar}\rRuntimeError: CUDA out of memory")])
    assert found is not None
    assert found.outcome.value == "out_of_memory"


HOSTILE = """
from autotune.diagnosis import Log, diagnose
from autotune.diagnosis.catalogue import SIGNATURES
starts = ["[", "[rank", "[a", "1:", "1,", "(", "(a pid=1", "\\x1b[", "[Rank ", "last ", "1:1:",
    "2026-01-01 00:00:00", "W", "WARNING", "Warning", "NCCL INFO ", "NCCL WARN ", "SeqNum=1",
    "OpType=", "Traceback (most recent call last)", "[0]:", "host : ", "rank ", "===", "\\r"]
texts = starts + [text.split(" \u2026 ")[0] for one in SIGNATURES for text in one.texts]
for text in texts:
    for space in ("", " "):
        diagnose([Log.of((text + space) * (2**20 // (len(text) + 1)))])
print("done", len(texts))
"""


def test_hostile_lines_of_a_megabyte_take_bounded_time() -> None:
    """Some 600 of them; a pattern that backtracks would take hours for one."""
    done = subprocess.run(
        [sys.executable, "-c", HOSTILE], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.stdout.startswith("done"), done.stderr
