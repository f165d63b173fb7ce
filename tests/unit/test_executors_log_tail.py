"""The end of a log as text that can be stored and shown."""

from pathlib import Path

from autotune.executors.log_tail import last_line, log_tail


def written(folder: Path, data: bytes) -> str:
    path = folder / "log"
    path.write_bytes(data)
    return log_tail(path)


def test_a_short_log_is_whole(tmp_path: Path) -> None:
    assert written(tmp_path, b"one\n\ntwo\n") == "one\n\ntwo"


def test_the_last_40_lines(tmp_path: Path) -> None:
    lines = [str(number) for number in range(100)]
    assert written(tmp_path, "\n".join(lines).encode()) == "\n".join(lines[-40:])
    assert written(tmp_path, "\n".join([*lines, ""]).encode()) == "\n".join(lines[-40:])


def test_the_last_8_kib_of_a_line_without_end(tmp_path: Path) -> None:
    assert written(tmp_path, b"x" * 10**6 + b"end") == "x" * (8192 - 3) + "end"


def test_a_character_cut_in_two_is_replaced(tmp_path: Path) -> None:
    tail = written(tmp_path, "é".encode() * 8192 + b".")
    assert tail.startswith("\ufffdé")


def test_control_characters_and_colours_are_left_out(tmp_path: Path) -> None:
    data = b"\x1b[1;31mred\x1b[0m\x07\x00 \xc2\x9b31m tab\there\x1b]0;title\x07\n"
    assert written(tmp_path, data) == "red 31m tab\there]0;title"


def test_a_progress_bar_is_lines(tmp_path: Path) -> None:
    assert written(tmp_path, b"1%\r2%\r\n3%\r") == "1%\n2%\n3%"


def test_a_log_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert log_tail(tmp_path / "none") == ""


def test_the_last_line_that_says_something() -> None:
    assert last_line("a\n b \n \n\n") == "b"
    assert last_line("\n") == ""
    assert len(last_line("x" * 1000)) == 200
