"""How often a real study finds a winner where all candidates are equal, on this machine.

    python benchmarks/all_equal_real.py --studies 20 --results equal.jsonl
    python benchmarks/all_equal_real.py --studies 0 --results equal.jsonl    # the table alone

Studies by `autotune run` of the workload `tiny`, in a space of two variables that nobody reads.
Gloo doesn't show which variables it reads, so that to the search all 16 candidates may differ.
Each study adds a line to the file: it can be stopped, and goes on where it was.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from statistics import fmean
from typing import Any

from simulated_studies import table

KNOB = """
  - name: {name}
    help: A variable that nobody reads.
    sets: {{kind: environment, name: GLOO_{upper}}}
    effect: medium
    choices: [{{value: default}}, {{value: 1}}, {{value: 2}}, {{value: 3}}]
    default: default
"""
NAMES = ("equal_first", "equal_second")


def main() -> None:
    """Run the studies that are missing and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--studies", type=int, default=20)
    parser.add_argument("--results", type=Path, default=Path("all_equal.jsonl"))
    parser.add_argument("--budget", default="3m")
    parser.add_argument("--window", default="0.1s")
    chosen = parser.parse_args()
    done = len(chosen.results.read_text().splitlines()) if chosen.results.exists() else 0
    for seed in range(done, chosen.studies):
        found = study(seed, chosen.budget, chosen.window)
        with chosen.results.open("a") as file:
            file.write(json.dumps(found) + "\n")
    show([json.loads(line) for line in chosen.results.read_text().splitlines()])


def study(seed: int, budget: str, window: str) -> dict[str, Any]:
    """What one study found. Raises CalledProcessError if it couldn't be run."""
    with tempfile.TemporaryDirectory() as folder:
        space = Path(folder, "equal.yaml")
        space.write_text("knobs:" + "".join(KNOB.format(name=n, upper=n.upper()) for n in NAMES))
        command = [
            sys.executable, "-m", "autotune", "run", "--instance", "local", "--share-machine",
            "--space", str(space), "--only", ",".join(NAMES),
            "--budget", budget, "--window", window, "--seed", str(seed), "--format", "json",
        ]  # fmt: skip
        environment = {**os.environ, "AUTOTUNE_HOME": folder}
        output = subprocess.run(
            command, env=environment, cwd=folder, check=True, stdout=subprocess.PIPE, timeout=3600
        ).stdout
    return {"seed": seed, "budget": budget, "window": window, "answer": json.loads(output)}


def show(results: list[dict[str, Any]]) -> None:
    """One line; a study that ends as `improved` has found a false winner."""
    answers = [result["answer"] for result in results]
    conclusions = Counter(answer["conclusion"] for answer in answers)
    intervals = [found for found in map(interval, answers) if found]
    held = sum(low <= 0 <= high for low, high in intervals)
    noise = sorted(answer["noise_percent"]["launch"] for answer in answers)
    table(
        ["studies", "false winners", "conclusions", "interval holds", "launches", "noise"],
        [[
            len(results), conclusions["improved"],
            ", ".join(f"{name} {count}" for name, count in sorted(conclusions.items())),
            f"{held} of {len(intervals)}",
            f"{fmean(answer['trials'] for answer in answers):.0f}",
            f"{noise[0]:.0f} to {noise[-1]:.0f} %",
        ]],
    )  # fmt: skip


def interval(answer: dict[str, Any]) -> tuple[float, float] | None:
    """Of the best finalist's gain in percent, as the answer's sentence has it."""
    found = re.search(r"interval ([+-][\d.]+) % to ([+-][\d.]+) %", answer["reason"])
    return (float(found[1]), float(found[2])) if found else None


if __name__ == "__main__":
    main()
