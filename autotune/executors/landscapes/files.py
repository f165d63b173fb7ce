"""Reads landscapes: those that come with autotune, by name, and those of the user, by path."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.errors import FieldError, UserError
from autotune.executors.landscapes.landscape import Landscape
from autotune.executors.landscapes.recorded import Recorded, read_table
from autotune.executors.landscapes.scenario import Scenario
from autotune.space.documents import decode_fields
from autotune.yaml_reader import Source, parse_yaml, raise_mistakes, read_source, read_text

SHIPPED = Path(__file__).resolve().parents[2] / "search_spaces" / "landscapes"
_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, kw_only=True)
class LandscapeSource:
    """A landscape as a person named it, and the text of their file as it was then."""

    name: str
    """One that comes with autotune, or a path."""
    text: str = ""
    """Empty for those that come with autotune."""

    @classmethod
    def of(cls, name: str) -> "LandscapeSource":
        """`name` as it is given on the command line. Raises UserError."""
        if name in shipped_names():
            return cls(name=name)
        path = Path(name)
        if path.suffix not in _SUFFIXES and not path.exists():
            raise FieldError(
                "--landscape",
                name,
                "is no landscape that comes with autotune, and no file",
                alternatives=shipped_names(),
            )
        text = read_text(path)
        if not text:
            raise UserError(f"{path}: is empty")
        return cls(name=str(path.absolute()), text=text)

    @property
    def label(self) -> str:
        """The name without its folder."""
        return Path(self.name).stem if self.text else self.name

    def scenario(self) -> Scenario:
        """The content. Raises UserError with every mistake in it."""
        return read_scenario(self._source)

    def landscape(self) -> Landscape:
        """The landscape with its table. Raises UserError if that isn't the one it was."""
        scenario = self.scenario()
        if scenario.table is None:
            return scenario.landscape(self.label)
        base = _base_of(self._source.data)
        folder = SHIPPED if not self.text or base else Path(self.name).parent
        rows = read_table(folder / scenario.table.file, scenario.table.sha256)
        return scenario.landscape(self.label, Recorded.of(rows))

    @property
    def _source(self) -> Source:
        if self.text:
            return parse_yaml(self.text, self.name)
        return read_source(SHIPPED / f"{self.name}.yaml")


def shipped_names() -> list[str]:
    """The landscapes that come with autotune."""
    return sorted(path.stem for path in SHIPPED.glob("*.yaml"))


def read_scenario(source: Source) -> Scenario:
    """The scenario in `source`, on top of the one that its `base` names.

    Raises UserError with file, line, key, value and rule of every mistake.
    """
    if not isinstance(source.data, Mapping):
        raise UserError(f"{source.name}:1: has to be a mapping of keys")
    mistakes: list[FieldError] = []
    scenario = decode_fields(Scenario, _merged(source.data, mistakes), "", mistakes)
    raise_mistakes(source, mistakes)
    if scenario is None:
        raise AssertionError(source.name)  # it has mistakes, then
    return scenario


def _merged(data: Mapping[str, Any], mistakes: list[FieldError]) -> Mapping[str, Any]:
    if "base" not in data:
        return data
    own = {key: value for key, value in data.items() if key != "base"}
    name = _base_of(data)
    if name not in shipped_names():
        rule = "is no landscape that comes with autotune"
        mistakes.append(FieldError("base", data["base"], rule, alternatives=shipped_names()))
        return own
    if "table" in own:
        mistakes.append(FieldError("table", own.pop("table"), "can't be changed on top of a base"))
    return {**read_source(SHIPPED / f"{name}.yaml").data, **own}


def _base_of(data: Any) -> str:
    name = data.get("base", "") if isinstance(data, Mapping) else ""
    return name if isinstance(name, str) else ""
