"""The report's page in a real browser."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autotune.report.document import document
from autotune.report.page import to_html
from tests.unit.test_report import NASTY, a_report, crafted, trials_of

pytestmark = pytest.mark.browser
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    if not CHROMIUM:
        pytest.skip("needs Chromium: apt-get install chromium")
    with api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


class Opened:
    """A page, and what it did while it loaded."""

    def __init__(self, browser: Any, file: Path, width: int = 1100) -> None:
        self.page = browser.new_page(viewport={"width": width, "height": 900})
        self.asked: list[str] = []
        self.complaints: list[str] = []
        self.dialogs: list[str] = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", self._dismiss)
        self.page.goto(file.as_uri())

    def _dismiss(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()


@pytest.fixture(scope="module")
def crafted_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "crafted.html"
    file.write_text(to_html(document(crafted())), "utf-8")
    return file


def test_a_crafted_study_runs_nothing_and_asks_for_nothing(
    browser: Any, crafted_file: Path
) -> None:
    opened = Opened(browser, crafted_file)
    assert opened.asked == [crafted_file.as_uri()]
    assert opened.complaints == []
    assert opened.dialogs == []
    assert opened.page.locator("script, img, iframe, link").count() == 0
    assert "<script>alert(1)</script>" in opened.page.inner_text("body")
    assert NASTY.partition("\n")[0] in opened.page.inner_text(".lead")


@pytest.mark.parametrize("width", [1100, 380])
def test_everything_fits_the_window(browser: Any, crafted_file: Path, width: int) -> None:
    page = Opened(browser, crafted_file, width).page
    page.eval_on_selector_all("details", "all => all.forEach(one => one.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_figures_and_tables_can_be_seen(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(to_html(document(a_report(trials_of(100.0, 110.0, 105.0)))), "utf-8")
    page = Opened(browser, file).page
    figures = page.locator("figure svg")
    assert figures.count() >= 2
    for index in range(figures.count()):
        box = figures.nth(index).bounding_box()
        assert box["width"] > 300
        assert box["height"] > 60
    history = page.locator("details", has_text="All 3 trials")
    assert not history.locator("table").is_visible()
    history.locator("summary").click()
    assert history.locator("tbody tr").count() == 3
    assert history.locator("table").is_visible()
    page.locator("nav a", has_text="Reproduce").click()
    assert page.url.endswith("#s9")
