"""The report in a real browser: it shows everything, asks nobody for anything, and unfolds."""

from __future__ import annotations

import re
import shutil
from collections.abc import Generator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from pipeline.records import DiscoveryResult, DiscoveryRun, ExplorationStep, Project
from serve.report import write_report

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    assert found, "no Chromium on the PATH; `make test` installs one"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=QUIET)
        yield browser
        browser.close()


class Opened:
    """The report in a tab, and what the tab complained about or asked for."""

    def __init__(self, page: Page) -> None:
        self.page, self.complaints, self.requests = page, list[str](), list[str]()
        page.on("console", lambda said: self.complaints.append(f"{said.type}: {said.text}"))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))


@pytest.fixture
def opened(
    browser: Browser,
    home: Path,
    tmp_path: Path,
    project: Project,
    run: DiscoveryRun,
    result: DiscoveryResult,
    steps: list[ExplorationStep],
) -> Generator[Opened]:
    paths = write_report(project, run, result, steps, tmp_path / "report")
    with browser.new_context(viewport={"width": 1200, "height": 900}) as context:
        opened = Opened(context.new_page())
        opened.page.goto(paths.html.as_uri())
        yield opened


def test_it_loads_without_a_complaint_and_asks_nobody_for_anything(opened: Opened) -> None:
    opened.page.wait_for_load_state("networkidle")
    assert opened.complaints == []
    assert opened.requests == [opened.page.url]
    assert opened.page.url.startswith("file://")


def test_every_insight_and_recommendation_is_a_visible_heading(
    opened: Opened, result: DiscoveryResult
) -> None:
    names = [insight.name for insight in result.insights]
    names += [advice.title for advice in result.recommendations]
    for name in names:
        expect(opened.page.get_by_role("heading", name=name, exact=True)).to_be_visible()


def test_the_check_of_a_finding_unfolds_to_its_evidence_and_sql(
    opened: Opened, result: DiscoveryResult
) -> None:
    (insight,) = (i for i in result.insights if i.ref == "segments-1")
    validation = insight.validation
    assert validation is not None
    assert validation.verifier is not None
    proof = validation.verifier.claim_verdicts[1].evidence
    card = opened.page.locator("article", has_text=insight.name).first
    sql = card.locator("details.sql pre", has_text=proof.query_sql).first
    expect(sql).not_to_be_visible()
    card.locator("details.check > summary").click()
    expect(card.get_by_text(insight.name).nth(1)).to_be_visible()
    expect(card.locator("dd", has_text="20.22").first).to_be_visible()
    sql.locator("..").locator("summary").click()
    expect(sql).to_be_visible()
    expect(sql).to_have_text(proof.query_sql)


def test_every_query_unfolds_to_its_sql_and_rows(
    opened: Opened, steps: list[ExplorationStep]
) -> None:
    for step in steps:
        if not step.query:
            continue
        query = opened.page.locator(f"#step-{step.step}")
        expect(query.locator("pre")).not_to_be_visible()
        query.locator("summary").click()
        expect(query.locator("pre")).to_have_text(step.query)
        expect(query.locator("pre")).to_be_visible()
        expect(query.locator("tbody tr")).to_have_count(len(step.query_result[:8]))


def test_evidence_that_is_a_series_or_a_ranking_has_a_picture(opened: Opened) -> None:
    pictures = opened.page.locator("figure.chart svg")
    expect(pictures).not_to_have_count(0)
    for picture in pictures.all():
        box = picture.bounding_box()
        assert box is not None
        assert box["width"] > 200
        assert box["height"] > 80


@pytest.mark.parametrize("width", [1200, 390])
def test_the_page_fits_the_screen(opened: Opened, width: int) -> None:
    opened.page.set_viewport_size({"width": width, "height": 800})
    for summary in opened.page.locator("details > summary").all():
        if summary.is_visible():
            summary.click()
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width


def test_links_lead_to_what_they_name(opened: Opened) -> None:
    opened.page.locator("table.list a").first.click()
    assert re.search(r"#insight-[\w-]+$", opened.page.url)
    target = opened.page.locator(f"[id='{opened.page.url.rsplit('#', 1)[1]}']")
    expect(target).to_be_in_viewport()
