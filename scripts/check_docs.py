"""Checks that every relative link in the Markdown files leads somewhere, anchors included.

Usage: python scripts/check_docs.py [FOLDER]; one line for each broken link, and exit code 1 if any.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token

_ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
_HTML_ANCHOR = re.compile(r"""<a\s[^>]*\b(?:id|name)=["']([^"']+)""")


def broken_links(folder: Path) -> Iterator[str]:
    """`FILE:LINE: LINK: REASON` for each link of `folder`'s own and its docs' pages."""
    for page in sorted([*folder.glob("*.md"), *folder.glob("docs/**/*.md")]):
        for line, link in _links(page):
            reason = _fault(page, link, folder)
            if reason:
                yield f"{page.relative_to(folder)}:{line}: {link}: {reason}"


def _fault(page: Path, link: str, folder: Path) -> str:
    if _ELSEWHERE.match(link):
        return ""
    path, _, anchor = unquote(link).partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.is_relative_to(folder.resolve()):
        return "leads out of the repository"
    if not target.exists():
        return "no such file"
    if anchor and target.suffix == ".md" and anchor not in set(_anchors(target)):
        return "no such heading"
    return ""


def _links(page: Path) -> Iterator[tuple[int, str]]:
    """Line and target of every link and image. Code is no link."""
    for block in _parse(page):
        line = block.map[0] + 1 if block.map else 1
        for token in block.children or ():
            line += token.type in ("softbreak", "hardbreak")
            link = token.attrGet("href") or token.attrGet("src")
            if token.type in ("link_open", "image") and link:
                yield line, str(link)


def _anchors(page: Path) -> Iterator[str]:
    """The anchors that GitHub gives a page's headings, and those written in HTML."""
    seen: Counter[str] = Counter()
    tokens = _parse(page)
    for opening, content in pairwise(tokens):
        if opening.type == "heading_open":
            text = "".join(child.content for child in content.children or ())
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            yield f"{slug}-{seen[slug]}" if seen[slug] else slug
            seen[slug] += 1
    yield from _HTML_ANCHOR.findall(page.read_text(encoding="utf-8"))


def _parse(page: Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8"))


def main() -> int:
    """Prints the broken links; the exit code says whether there are any."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent
    faults = list(broken_links(folder))
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
