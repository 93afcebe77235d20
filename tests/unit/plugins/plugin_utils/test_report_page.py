# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""report.html in a real browser."""

from __future__ import annotations

import os
import shutil

import pytest

pytest.importorskip("matplotlib")
playwright = pytest.importorskip("playwright.sync_api")

from ansible_collections.gpufabric.nccl.plugins.plugin_utils._report.data import make_report  # noqa: E402
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._report.page import render_html  # noqa: E402

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="report.html is not tried: there is no Chromium on this machine"
)

#: Milliseconds for each thing that the browser is asked to do: its start alone takes a busy machine half a minute.
PATIENCE = 300_000
#: The texts of a column of a table.
COLUMN = "(table, place) => Array.from(table.tBodies[0].rows, (row) => row.cells[place].textContent.trim())"
#: The sizes of texts in drawings.
LETTERS = """(texts) => texts.map((text) => {
  const drawing = text.ownerSVGElement;
  return parseFloat(getComputedStyle(text).fontSize) * drawing.clientWidth / drawing.viewBox.baseVal.width;
})"""


class Opened:
    """A page of a report. ``told``: what it says on the console, its errors, and what it asks the network for."""

    def __init__(self, browser, directory, report, width, scheme):
        path = directory / "report.html"
        path.write_text(render_html(report), encoding="utf-8")
        self.told = []
        self.page = browser.new_page(viewport={"width": width, "height": 844}, color_scheme=scheme)
        self.page.set_default_timeout(PATIENCE)
        self.page.on("console", lambda message: self.told.append(message.text))
        self.page.on("pageerror", lambda error: self.told.append(str(error)))
        self.page.on("request", lambda request: self.told.append(request.url))
        self.page.goto(path.as_uri())
        # The page itself is the one thing that is asked for.
        assert self.told.pop(0) == path.as_uri()

    def widths(self):
        return self.page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")

    def order(self, label, place):
        return self.page.eval_on_selector(f'[aria-label="{label}"] table', COLUMN, place)

    def select(self, label, name):
        self.page.locator(f'[aria-label="{label}"] th button', has_text=name).first.click()


@pytest.fixture(scope="module")
def browser():
    # As root Chromium has no sandbox.
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with playwright.sync_playwright() as player:
        browser = player.chromium.launch(executable_path=BROWSER, args=options, timeout=PATIENCE)
        yield browser
        browser.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_page(browser, tmp_path, whole_report, width, scheme):
    opened = Opened(browser, tmp_path, whole_report, width, scheme)
    page = opened.page
    # Also where all is open.
    page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    assert opened.widths() == [width, width]
    shown = "wide" if width > 700 else "narrow"
    assert [page.locator(f".chart .{name} svg").first.is_visible() for name in ("wide", "narrow")] == [
        shown == "wide",
        shown == "narrow",
    ]
    # Letters in a chart that can be read, in pixels.
    letters = page.eval_on_selector_all(f".chart .{shown} text", LETTERS)
    assert len(letters) > 20 and min(letters) > 8.5
    background, colour = (
        page.evaluate(f"getComputedStyle(document.body).{name}.match(/\\d+/g).slice(0, 3).map(Number)")
        for name in ("backgroundColor", "color")
    )
    assert (sum(background) > sum(colour)) == (scheme == "light")
    assert abs(sum(background) - sum(colour)) > 450
    line = page.locator(f"#bandwidth .{shown} path[style*='--series-1']").first
    assert (
        line.evaluate("(path) => getComputedStyle(path).stroke")
        == {
            "light": "rgb(11, 99, 206)",
            "dark": "rgb(108, 176, 255)",
        }[scheme]
    )

    before = opened.order("All tests", 3)
    opened.select("All tests", "peak busbw")
    rising = opened.order("All tests", 3)
    opened.select("All tests", "peak busbw")
    falling = opened.order("All tests", 3)
    assert rising == sorted(before, key=float) and falling == rising[::-1] and before not in (rising, falling)
    opened.select("Rows of test 1. all_reduce float sum, 16 ranks on 2 hosts", "size")
    opened.select("Rows of test 1. all_reduce float sum, 16 ranks on 2 hosts", "size")
    sizes = opened.order("Rows of test 1. all_reduce float sum, 16 ranks on 2 hosts", 0)
    assert sizes[0] == "8 GiB" and sizes[-1] == "8 B"
    opened.select("All tests", "test")
    assert opened.order("All tests", 2) == sorted(opened.order("All tests", 2))
    assert opened.told == []


def test_what_is_not_known_comes_last_either_way(browser, tmp_path, whole_report):
    opened = Opened(browser, tmp_path, whole_report, 1280, "light")
    for last in ("failed", ""):
        opened.select("The slowest pairs", "from the median")
        assert opened.order("The slowest pairs", 3)[-1] == ""
        assert opened.order("The slowest pairs", 2)[-1] == "failed", last


def test_on_paper_nothing_is_closed_or_dark(browser, tmp_path, whole_report):
    opened = Opened(browser, tmp_path, whole_report, 1280, "dark")
    page = opened.page
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    assert page.pdf(format="A4").startswith(b"%PDF-")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 0


def test_each_column_is_sorted_by_what_it_holds(browser, tmp_path, whole_report):
    opened = Opened(browser, tmp_path, whole_report, 1280, "light")
    table = opened.page.locator('[aria-label="The slowest pairs"] table')
    sorts = "(table) => Array.from(table.tHead.rows[0].cells, (head) => head.getAttribute('aria-sort'))"
    # What failed is slower than all that ran.
    opened.select("The slowest pairs", "busbw")
    assert opened.order("The slowest pairs", 2)[0] == "failed"
    assert table.evaluate(sorts) == [None, None, "ascending", None]
    opened.select("The slowest pairs", "busbw")
    assert opened.order("The slowest pairs", 2)[-1] == "failed"
    assert table.evaluate(sorts) == [None, None, "descending", None]
    opened.select("The slowest pairs", "busbw")
    assert opened.order("The slowest pairs", 2)[0] == "failed"
    # gpu-10 comes behind gpu-9.
    opened.select("The slowest pairs", "and host")
    hosts = opened.order("The slowest pairs", 1)
    assert hosts == sorted(hosts, key=lambda name: int(name.partition("-")[2])) and hosts != sorted(hosts)
    assert table.evaluate(sorts) == [None, "ascending", None, None]
    # A column with a text in it is sorted as text, wherever the text stands.
    opened.page.eval_on_selector(
        '[aria-label="Hosts"] table',
        """(table) => {
          const row = table.tBodies[0].rows[0];
          table.tBodies[0].replaceChildren(...["9", "gpu", "10"].map((name) => {
            const copy = row.cloneNode(true);
            copy.cells[0].textContent = name;
            return copy;
          }));
        }""",
    )
    opened.select("Hosts", "host")
    assert opened.order("Hosts", 0) == ["9", "10", "gpu"]


def test_a_test_that_was_not_checked_is_behind_those_that_were_either_way(browser, tmp_path, whole_report):
    documents = [test.document for test in whole_report.tests[:3]]
    documents = [
        {**document, "summary": {**document["summary"], "wrong": wrong}}
        for document, wrong in zip(documents, (9, None, 10))
    ]
    opened = Opened(browser, tmp_path, make_report(documents), 1280, "light")
    for order in (["9", "10"], ["10", "9"]):
        opened.select("All tests", "wrong")
        assert opened.order("All tests", 6) == [*order, "not checked"]


def test_after_printing_what_was_open_is_open_and_only_that(browser, tmp_path, whole_report):
    page = Opened(browser, tmp_path, whole_report, 1280, "light").page
    opened = "Array.from(document.querySelectorAll('details'), (details) => details.open).filter(Boolean).length"
    page.locator("summary").first.click()
    assert page.evaluate(opened) == 1
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(opened) == 1
    # What was opened since is not closed by a second time.
    page.locator("summary").nth(1).click()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(opened) == 2


@pytest.mark.parametrize("width", [1280, 390])
def test_hostile_text_is_shown_and_does_nothing(browser, tmp_path, hostile, width):
    text = hostile["collective"]
    pairs = {"pairs": [{"a": text, "b": "b" * 300, "busbw": 3}]}
    opened = Opened(browser, tmp_path, make_report([hostile], text, isolation=pairs), width, "light")
    assert "<script>alert(1)</script>" in opened.page.inner_text("header")
    assert opened.widths() == [width, width]
    assert opened.told == []
