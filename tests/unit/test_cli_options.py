"""What is read from the command line, and how mistakes in it are told."""

import pytest

from autotune.cli import main
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
