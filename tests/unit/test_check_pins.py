"""scripts/check_pins.py finds what is wrong with constraints.txt, with and without a network."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "check_pins.py"
PINS = (ROOT / "constraints.txt").read_text("utf-8")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_pins", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check(folder: Path, pins: str, *arguments: str) -> tuple[int, str]:
    (folder / "constraints.txt").write_text(pins)
    (folder / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text("utf-8"))
    done = subprocess.run(
        [sys.executable, SCRIPT, folder, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_the_pins_are_in_order(tmp_path: Path) -> None:
    assert check(tmp_path, PINS) == (0, "")


@pytest.mark.parametrize(
    ("line", "instead", "words"),
    [
        ("click==", "click>=", ["no exact pin"]),
        ("jinja2==", "jinja2===", ["no exact pin"]),
        ("mako==", "# mako==", ["mako: is needed and has no pin"]),
        ("mako==", "torch==2.13.0\nmako==", ["torch is there twice"]),
        ("alembic==", "zz==1\nalembic==", ["not in order"]),
    ],
)
def test_how_pins_are_written(tmp_path: Path, line: str, instead: str, words: list[str]) -> None:
    code, out = check(tmp_path, PINS.replace(f"\n{line}", f"\n{instead}", 1))
    assert code == 1
    for word in words:
        assert word in out


def test_pins_that_do_not_fit(script: ModuleType) -> None:
    pins, faults = script.read_pins(PINS)
    assert faults == []
    roots = script.declared({"project": {"dependencies": ["optuna>=5.0,<6"],
                                         "optional-dependencies": {"dev": []}}})  # fmt: skip
    assert list(script.missing_or_unfit(roots, pins)) == []
    found = list(script.missing_or_unfit(roots, {**pins, "optuna": "4.9", "tqdm": "0.1"}))
    assert "optuna: 4.9 is pinned, <6,>=5.0 is needed" in found
    assert next(iter(script.not_installed({"pytest": "1.0"}))).startswith("pytest: 1.0 is pinned, ")
    assert list(script.not_installed({"torch": pins["torch"]})) == [], "+cpu is the same version"


def test_versions_that_are_known_bad(script: ModuleType) -> None:
    entries = json.loads(script.KNOWN_BAD.read_text("utf-8"))
    assert all(entry["source"].startswith("https://") for entry in entries)
    assert list(script.known_bad({"torch": "2.9.1", "pyyaml": "6.0.4"}, entries)) == [
        "torch: 2.9.1 has CVE-2026-24747: torch.load corrupts memory in spite of weights_only=True"
    ]


class Osv(BaseHTTPRequestHandler):
    """Answers as https://google.github.io/osv.dev/post-v1-querybatch/ says: click is vulnerable."""

    def do_POST(self) -> None:
        body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        results = [
            {"vulns": [{"id": "GHSA-x"}]} if q["package"]["name"] == "click" else {}
            for q in body["queries"]
        ]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"results": results}).encode())

    def log_message(self, format: str, *args: object) -> None:
        del format, args


@pytest.fixture
def service() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Osv) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1/querybatch"
        server.shutdown()
        thread.join()


def test_the_service_is_asked_if_one_wants(tmp_path: Path, service: str) -> None:
    code, out = check(tmp_path, PINS, "--ask", service)
    assert code == 1
    assert "GHSA-x (https://osv.dev/GHSA-x)" in out
    assert out.count("\n") == 1


def test_a_service_that_can_not_be_reached_is_a_fault(tmp_path: Path) -> None:
    code, out = check(tmp_path, PINS, "--ask", "http://127.0.0.1:9/")
    assert code == 1
    assert "can't be asked" in out
