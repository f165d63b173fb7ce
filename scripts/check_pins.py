"""Checks the pins in constraints.txt: exact, complete, what pyproject.toml asks for, not known bad.

Usage: python scripts/check_pins.py [FOLDER] [--ask [URL]]; one line for each fault, and exit code 1
if there are any. It reads what is installed beside it and needs no network; with --ask it asks OSV
(https://osv.dev), one of the services that pip-audit asks, for vulnerabilities of the versions.
"""

import argparse
import json
import re
import sys
import tomllib
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from urllib.error import URLError

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

OSV = "https://api.osv.dev/v1/querybatch"
KNOWN_BAD = Path(__file__).with_name("known_bad.json")
LIMIT_S = 30
_PIN = re.compile(r"([a-z0-9][a-z0-9-]*)==([0-9][0-9a-z.]*)")
Pins = Mapping[str, str]


def read_pins(text: str) -> tuple[dict[str, str], list[str]]:
    """Name to version, and what is wrong with how they are written."""
    pins: dict[str, str] = {}
    faults: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _PIN.fullmatch(line)
        if match is None:
            faults.append(f"line {number}: {line!r} is no exact pin, as name==1.2.3")
        elif match[1] in pins:
            faults.append(f"line {number}: {match[1]} is there twice")
        else:
            pins[match[1]] = match[2]
    if list(pins) != sorted(pins):
        faults.append("the names are not in order")
    return pins, faults


def declared(project: Mapping[str, dict[str, object]]) -> list[Requirement]:
    """What the project needs to run and to be tested, by its pyproject.toml."""
    table = project["project"]
    extras = table["optional-dependencies"]
    if not isinstance(extras, dict) or not isinstance(table["dependencies"], list):
        raise TypeError("pyproject.toml: dependencies have to be lists")
    return [Requirement(text) for text in [*table["dependencies"], *extras["dev"]]]


def missing_or_unfit(roots: Iterable[Requirement], pins: Pins) -> Iterator[str]:
    """What is needed, directly or not, and has no pin, or one that doesn't fit."""
    pending = list(roots)
    seen: set[tuple[str, frozenset[str]]] = set()
    while pending:
        need = pending.pop()
        name = canonicalize_name(need.name)
        key = (name, frozenset(need.extras))
        # A pin by the package that needs it, as torch has for its parts, is enough.
        is_pinned = any(part.operator == "==" for part in need.specifier) and name not in pins
        if key in seen or is_pinned:
            continue
        seen.add(key)
        if name not in pins:
            yield f"{name}: is needed and has no pin"
        elif not need.specifier.contains(pins[name], prereleases=True):
            yield f"{name}: {pins[name]} is pinned, {need.specifier} is needed"
        pending += _needs(need)


def _needs(need: Requirement) -> Iterator[Requirement]:
    """What an installed package needs in turn, with the extras that are asked for."""
    try:
        texts = requires(need.name) or []
    except PackageNotFoundError:  # of another platform
        return
    for child in map(Requirement, texts):
        extras = [*need.extras, ""]
        if child.marker is None or any(child.marker.evaluate({"extra": e}) for e in extras):
            yield child


def not_installed(pins: Pins) -> Iterator[str]:
    """Pins of which another version is installed, so that it is another one that was tested."""
    for name, pinned in pins.items():
        try:
            found = Version(version(name)).public
        except PackageNotFoundError:
            continue
        if found != pinned:
            yield f"{name}: {pinned} is pinned, {found} is installed"


def known_bad(pins: Pins, entries: Iterable[Mapping[str, str]]) -> Iterator[str]:
    """Pins among the versions that `entries` name."""
    for entry in entries:
        affected = Requirement(f"{entry['package']}{entry['affected']}").specifier
        pinned = pins.get(entry["package"])
        if pinned is not None and affected.contains(pinned, prereleases=True):
            yield f"{entry['package']}: {pinned} has {entry['id']}: {entry['what']}"


def ask(pins: Pins, url: str) -> Iterator[str]:
    """What the OSV service at `url` knows of the pinned versions. Raises URLError, ValueError."""
    queries = [
        {"package": {"name": name, "ecosystem": "PyPI"}, "version": pinned}
        for name, pinned in pins.items()
    ]
    request = urllib.request.Request(  # noqa: S310 - the person's own, or the constant
        url,
        data=json.dumps({"queries": queries}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:  # noqa: S310
        results = json.load(answer)["results"]
    for (name, pinned), result in zip(pins.items(), results, strict=True):
        for found in result.get("vulns", []):
            yield f"{name}: {pinned} has {found['id']} (https://osv.dev/{found['id']})"


def faults_in(folder: Path, bad: Iterable[Mapping[str, str]]) -> list[str]:
    """Everything that can be told without a network."""
    pins, faults = read_pins((folder / "constraints.txt").read_text(encoding="utf-8"))
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    faults += missing_or_unfit(declared(project), pins)
    return [*faults, *not_installed(pins), *known_bad(pins, bad)]


def main() -> int:
    """Prints the faults; the exit code says whether there are any."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parent.parent)
    parser.add_argument("--ask", nargs="?", const=OSV, metavar="URL")
    options = parser.parse_args()
    faults = faults_in(options.folder, json.loads(KNOWN_BAD.read_text(encoding="utf-8")))
    if options.ask:
        pins, _ = read_pins((options.folder / "constraints.txt").read_text(encoding="utf-8"))
        try:
            faults += ask(pins, options.ask)
        except (URLError, ValueError, KeyError, TimeoutError) as error:
            faults.append(f"{options.ask}: can't be asked: {error}")
    for fault in faults:
        print(f"constraints.txt: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
