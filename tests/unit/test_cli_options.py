"""What is read from the command line, and how mistakes in it are told."""

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from autotune.cli import main
from autotune.cli.option_set import OptionSet, takes
from autotune.cli.options import names
from autotune.errors import FieldError, UserError


def test_a_list_may_be_given_in_parts() -> None:
    assert names(["strategy, bucket_cap_mb", "compile"], "--only") == (
        "strategy", "bucket_cap_mb", "compile",
    )  # fmt: skip
    assert names(None, "--only") == ()


@pytest.mark.parametrize("part", ["", ",", " "])
def test_each_part_names_something(part: str) -> None:
    with pytest.raises(FieldError, match="names nothing"):
        names(["strategy", part], "--only")


def test_a_message_gives_the_terminal_no_orders(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> None:
        raise UserError("names \x1b[2K\u202eevil\r", hint="one\n\ttwo\x1b[1G")

    monkeypatch.setattr(main, "app", fails)
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said == "error: names \\x1b[2K\\u202eevil\\r\nhint: one\n\ttwo\\x1b[1G\n"


@dataclass(frozen=True, kw_only=True)
class Words(OptionSet):
    """Options as commands have them."""

    run_id: Annotated[str, typer.Argument()]
    is_quick: Annotated[bool, typer.Option("--quick")] = False
    counts: Annotated[list[int] | None, typer.Option("--count", min=1)] = None


def test_a_command_has_the_options_of_its_object() -> None:
    seen: list[Words] = []
    app = typer.Typer()

    @app.command()
    @takes(Words)
    def command(words: Words) -> None:
        """What it does."""
        seen.append(words)

    run = CliRunner().invoke
    assert run(app, ["a", "--count", "2", "--count", "3", "--quick"]).exit_code == 0
    assert run(app, ["b"]).exit_code == 0
    assert seen == [Words(run_id="a", is_quick=True, counts=[2, 3]), Words(run_id="b")]
    assert [run(app, words).exit_code for words in ([], ["a", "--count", "0"])] == [2, 2]
    assert "What it does." in run(app, ["--help"]).output


def test_options_are_told_by_the_names_that_are_typed() -> None:
    words = Words(run_id="a", counts=[2])
    told = {"RUN_ID": "a", "--quick": False, "--count": [2]}
    assert words.given("run_id", "is_quick", "counts") == told
