"""Fuzzes one target by coverage: python -m tests.fuzz.with_atheris TARGET [libFuzzer's options].

Needs atheris (pip install atheris), which nothing else here does. What it finds belongs into
tests/fixtures/fuzz/, as TARGET-what.bin.
"""

import sys

import atheris

with atheris.instrument_imports(include=["autotune", "yaml"]):
    from tests.fuzz.targets import TARGETS


def main() -> None:
    """Never returns by itself, unless -runs=N or -max_total_time=S is given."""
    target = TARGETS[sys.argv.pop(1)]
    atheris.Setup(sys.argv, target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
