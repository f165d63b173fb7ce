"""Finds out what a user's workload is, by building it once in a process of its own."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from autotune.errors import FieldError, UserError
from autotune.model import PRESETS, UserWorkload, decode, preset

LIBRARIES = ("hf:", "torchvision:")
_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
LIMIT_S = 300.0
"""For importing its module and building the model on the CPU."""


def find_user_workload(name: str) -> UserWorkload | None:
    """What `name` builds, from this folder; None if it is built in.

    Raises FieldError for a name that stands for nothing, and UserError with the user's own error
    and line if their code fails.
    """
    if name in PRESETS:
        return None
    if ":" not in name:
        try:
            preset(name)
        except FieldError as error:
            hint = "your own: --workload MODULE:FUNCTION, hf:MODEL or torchvision:MODEL"
            raise FieldError(
                "--workload", name, error.rule, alternatives=error.alternatives, hint=hint
            ) from None
    if name.partition(":")[0].endswith(".py"):
        rule = "names a file; a module's name has no .py"
        raise FieldError("--workload", name, rule, hint=f"--workload {name.replace('.py:', ':')}")
    if not _NAME.fullmatch(name) and not name.startswith(LIBRARIES):
        raise FieldError(
            "--workload", name, "has to be MODULE:FUNCTION, such as my_pkg.train:build"
        )
    sys.stderr.write(f"building {name} once, on the CPU, to learn what it is\n")
    answer = json.loads(_described(name, str(Path.cwd())) or "{}")
    if "error" in answer:
        trace = answer["traceback"].rstrip()
        raise UserError(answer["error"] + (f"\n{trace}" if trace else ""), hint=answer["hint"])
    if "workload" not in answer:
        raise UserError(
            f"--workload: {name} ended the process that built it, without a word",
            hint="build it in a plain Python process to see why",
        )
    return decode(UserWorkload, answer["workload"])


def _described(name: str, folder: str) -> str:
    """What that process says of it; what the user's code prints goes to stderr."""
    reader, writer = os.pipe()
    with os.fdopen(reader, encoding="utf-8") as channel:
        try:
            subprocess.run(
                [sys.executable, "-m", "autotune.trainers.describe", str(writer), name, folder],
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno(),
                pass_fds=(writer,),
                timeout=LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise UserError(
                f"--workload: {name} wasn't built on the CPU within {LIMIT_S:.0f} s",
                hint="see where it waits: py-spy dump, or build it in a plain Python process",
            ) from None
        finally:
            os.close(writer)
        return channel.read()
