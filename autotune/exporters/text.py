"""Sentences and comment lines that the exports share."""

from collections.abc import Collection, Mapping, Sequence

from autotune.model import BestConfiguration, Conclusion, KnobValue


def comment(text: str) -> str:
    """`text` as one comment line: no line break in a name can end the comment."""
    visible = "".join(character if character.isprintable() else " " for character in text)
    return f"# {' '.join(visible.split())}"


def summary(best: BestConfiguration) -> str:
    """What the configuration is, in a sentence."""
    target = best.target.describe()
    if best.conclusion is Conclusion.KEEP_DEFAULTS:
        defaults = defaults_text(best.evidence.pinned)
        return f"autotune: keep the {defaults} for {target}; nothing measured was reliably faster."
    if best.conclusion is Conclusion.UNCONFIRMED:
        return f"autotune: UNCONFIRMED, only the best seen so far for {target}."
    ratio = best.evidence.ratio
    gain = f", {ratio.estimate:.3f} times the baseline's speed" if ratio else ""
    return f"autotune: the fastest steady configuration measured for {target}{gain}."


def defaults_text(pinned: Mapping[str, KnobValue]) -> str:
    """What the baseline is called: the framework's defaults, with what the user held."""
    return f"defaults with {pins_text(pinned)}" if pinned else "defaults"


def scope(pinned: Mapping[str, KnobValue], only: Sequence[str]) -> str:
    """What the user kept from being searched; empty if nothing."""
    held = [f"{pins_text(pinned)} {_was(pinned)} held"] if pinned else []
    named = [f"only {', '.join(only)} {_was(only)} searched"] if only else []
    return "; ".join([*held, *named])


def _was(knobs: Collection[str]) -> str:
    return "was" if len(knobs) == 1 else "were"


def pins_text(pinned: Mapping[str, KnobValue]) -> str:
    """`knob=value` pairs, as after --set."""
    return " ".join(f"{name}={shown(value)}" for name, value in pinned.items())


def shown(value: KnobValue) -> str:
    """A knob's value as it is written in YAML and on the command line."""
    return str(value).lower() if isinstance(value, bool) else str(value)
