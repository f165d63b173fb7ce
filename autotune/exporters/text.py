"""Sentences and comment lines that the exports share."""

from autotune.model import BestConfiguration, Conclusion


def comment(text: str) -> str:
    """`text` as one comment line: no line break in a name can end the comment."""
    visible = "".join(character if character.isprintable() else " " for character in text)
    return f"# {' '.join(visible.split())}"


def summary(best: BestConfiguration) -> str:
    """What the configuration is, in a sentence."""
    target = best.target.describe()
    if best.conclusion is Conclusion.KEEP_DEFAULTS:
        return f"autotune: keep the defaults for {target}; nothing measured was reliably faster."
    if best.conclusion is Conclusion.UNCONFIRMED:
        return f"autotune: UNCONFIRMED, only the best seen so far for {target}."
    ratio = best.evidence.ratio
    gain = f", {ratio.estimate:.3f} times the baseline's speed" if ratio else ""
    return f"autotune: the fastest steady configuration measured for {target}{gain}."
