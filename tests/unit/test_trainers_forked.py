"""What a forked rank does with the descriptors that it has been handed."""

import subprocess
import sys


def test_descriptors_get_their_numbers_and_all_others_are_closed() -> None:
    # Two that are to swap numbers, and one too many. The listing itself gets the free number 0.
    program = (
        "import os\n"
        "from autotune.trainers.forked import arrange_descriptors\n"
        "first, second, third = (os.open(f'/proc/self/{n}', 0) for n in ('stat', 'comm', 'maps'))\n"
        "out = os.dup(1)\n"
        "arrange_descriptors([first, second, out], [second, first, 1])\n"
        "left = sorted(map(int, os.listdir('/proc/self/fd')))\n"
        "os.write(1, repr((left, first, second)).encode())\n"
        "os.write(1, os.readlink(f'/proc/self/fd/{first}').rpartition('/')[2].encode())\n"
        "os.write(1, str(os.get_inheritable(first)).encode())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True, timeout=60
    )
    assert done.stdout == "([0, 1, 3, 4], 3, 4)commFalse"
