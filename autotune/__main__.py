"""`python -m autotune`, and the command `autotune`."""

import sys

EXIT_INTERRUPTED = 130


def main() -> None:
    """Run the command line. Ctrl-C ends it without a traceback, also while it is being imported."""
    try:
        from autotune.cli.main import main as command  # noqa: PLC0415

        command()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
