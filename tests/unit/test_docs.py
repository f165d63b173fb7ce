"""The check of links in the docs, and what the docs have to cover."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

PAGE = """# One & two: `code`

## Same
## Same

| a | b |
|---|---|
| [fine](other.md#one-and-1) | [gone](nowhere.md) |

[own](#same-1) [none](#same-2) ![picture](missing.png) [out](../x) [web](https://example.com/x#y)
[folder](sub/) [reference][r] [title](#one--two-code) [html](#by-hand) `[code](no.md)`
<a id="by-hand"></a>

    [indented](no.md)

```
[fenced](no.md)
```

[r]: gone.md
"""


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "check_docs.py"), str(folder)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def test_the_check_names_each_broken_link(tmp_path: Path) -> None:
    (tmp_path / "docs" / "sub").mkdir(parents=True)
    (tmp_path / "docs" / "other.md").write_text("# One and\n\n# One and\n")
    (tmp_path / "docs" / "page.md").write_text(PAGE)
    (tmp_path / "README.md").write_text("[page](docs/page.md#nothing)\n")
    done = check(tmp_path)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "README.md:1: docs/page.md#nothing: no such heading",
        "docs/page.md:8: nowhere.md: no such file",
        "docs/page.md:10: #same-2: no such heading",
        "docs/page.md:10: missing.png: no such file",
        "docs/page.md:10: ../x: no such file",
        "docs/page.md:11: gone.md: no such file",
    ]


def test_a_link_out_of_the_repository_is_broken(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "outside.md").write_text("x")
    (tmp_path / "inside" / "README.md").write_text("[x](../outside.md)\n")
    done = check(tmp_path / "inside")
    assert done.stdout == "README.md:1: ../outside.md: leads out of the repository\n"


def test_no_link_is_broken_here() -> None:
    done = check(ROOT)
    assert done.stdout == ""
    assert done.returncode == 0


def test_every_exit_code_is_documented() -> None:
    text = (ROOT / "docs" / "exit_codes.md").read_text("utf-8")
    documented = set(re.findall(r"^\| (\d+) \|", text, re.MULTILINE))
    code = "".join(path.read_text("utf-8") for path in (ROOT / "autotune" / "cli").glob("*.py"))
    used = set(re.findall(r"^EXIT_\w+ = (\d+)$", code, re.MULTILINE))
    assert documented == used | {"0"}
    assert {"2", "3", "130"} <= used
