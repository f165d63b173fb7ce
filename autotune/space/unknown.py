"""How it is said that a fact isn't known."""


def unknown(fact: str, example: object) -> str:
    """A clause about `fact`, with what tells it; `example` is a value of it."""
    return f"isn't known (autotune knobs takes --assume {fact}={example})"
