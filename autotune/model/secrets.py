"""Keys, tokens and passwords, taken out of texts that are kept or shown. Pure.

What trials print may hold them: a URL with its password, a dumped environment, a header. Two ways
of telling them: by how they are written, and by the values that secret variables have here.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

MASK = "***"
LEAST_KNOWN = 6
"""Characters of a variable's value that is looked for; a shorter one would mask half of a text."""

_SECRET_WORDS = (
    "PASSWORD", "PASSWD", "PASSPHRASE", "PWD", "TOKEN", "SECRET", "CREDENTIAL", "CREDENTIALS",
    "APIKEY", "AUTH", "COOKIE",
)  # fmt: skip
_SECRET_PAIRS = re.compile(r"(^|_)(API|ACCESS|PRIVATE|SECRET|ENCRYPTION|SIGNING|ACCOUNT)_?KEY(_|$)")
_NO_SECRETS = {"PWD", "OLDPWD", "RAY_AUTH_MODE", "TOKENIZERS_PARALLELISM", "SSH_AUTH_SOCK"}
_NAMED = (
    r"(?:[\w.-]{0,64}(?:password|passwd|passphrase|secret|credentials?|api[_-]?key|access[_-]?key"
    r"|private[_-]?key|account[_-]?key|auth[_-]?token|access[_-]?token|refresh[_-]?token"
    r"|[_-]token)|token|pwd)"
)
_ASSIGNED = re.compile(
    rf"(?i)(?<![\w.-])(?P<name>{_NAMED})(?P<is>[\"']?\s{{0,4}}(?:=>|[:=])\s{{0,4}})"
    r"(?P<value>\"[^\"\n]{1,4096}\"|'[^'\n]{1,4096}'|[^\s\"'&,;)}\]]{1,4096})"
)
_LIKE_TOKEN = re.compile(r"(?=.{0,4000}[0-9]).{12}")
"""Models have tokens too, such as `eos_token: </s>` and `max_token: 512`."""
_WRITTEN = (
    # A URL's password, and one that stands alone before the @.
    re.compile(r"(?P<keep>\b[a-zA-Z][a-zA-Z0-9+.-]{1,20}://[^\s:/@]{0,256}:)[^\s/@]{1,1024}(?=@)"),
    re.compile(r"(?P<keep>\b(?:git|http|https)://)[^\s:/@]{16,1024}(?=@)"),
    re.compile(
        r"(?i)(?P<keep>\bauthorization[\"']?\s?[:=]\s?[\"']?(?:\w{1,20} )?)[\w.~+/=-]{8,4096}"
    ),
    re.compile(r"(?P<keep>\b[Bb]earer )[\w.~+/=-]{12,4096}"),
    re.compile(r"(?P<keep>\b)(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    re.compile(r"(?P<keep>\b)(?:gh[opsru]_|github_pat_)\w{20,255}"),
    re.compile(r"(?P<keep>\b)(?:hf_|glpat-|npm_|pypi-|xox[abprs]-|sk-|sk_live_)[\w-]{16,255}"),
    re.compile(r"(?P<keep>\b)AIza[\w-]{35}"),
    re.compile(r"(?P<keep>\b)eyJ[\w-]{8,4096}\.eyJ[\w-]{8,8192}\.[\w-]{8,4096}"),
    re.compile(r"(?P<keep>-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----)[^-]{1,16384}"),
)


def is_secret_name(name: str) -> bool:
    """Whether what is called `name` is a secret by its name."""
    upper = name.upper()
    if upper in _NO_SECRETS:
        return False
    words = upper.split("_")
    return any(word in _SECRET_WORDS for word in words) or bool(_SECRET_PAIRS.search(upper))


def redacted(text: str) -> str:
    """`text` with MASK in place of what is written like a secret."""
    for pattern in _WRITTEN:
        text = pattern.sub(rf"\g<keep>{MASK}", text)
    return _ASSIGNED.sub(_masked, text)


def _masked(match: re.Match[str]) -> str:
    value = match["value"]
    if match["name"].lower().endswith("token") and not _LIKE_TOKEN.search(value):
        return match[0]
    quote = value[0] if value[0] in "\"'" else ""
    return f"{match['name']}{match['is']}{quote}{MASK}{quote}"


@dataclass(frozen=True, kw_only=True)
class Secrets:
    """What has to be kept out of records."""

    known: Collection[str] = ()
    """Values that are secret here, however they are written."""

    @staticmethod
    def of(environment: Mapping[str, str]) -> "Secrets":
        """The values of the variables in `environment` that are named like secrets."""
        values = {v for n, v in environment.items() if is_secret_name(n) and len(v) >= LEAST_KNOWN}
        # The longest first: one may be a part of another.
        return Secrets(known=tuple(sorted(values, key=lambda value: (-len(value), value))))

    def redacted(self, text: str) -> str:
        """`text` without them, and without what is written like a secret."""
        for value in self.known:
            text = text.replace(value, MASK)
        return redacted(text)
