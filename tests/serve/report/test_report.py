"""The report: complete, safe, self-contained, and the same for the same records."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from pipeline.records import (
    DiscoveryResult,
    DiscoveryRun,
    ExplorationStep,
    InsightValidation,
    Project,
    Status,
)
from serve.report import ReportPaths, write_report
from serve.wording import status_meta

pytestmark = pytest.mark.usefixtures("home")
Write = Callable[..., ReportPaths]
HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "</pre></details></style><iframe src=//evil>",
    "[click](javascript:alert(1))",
    "![x](https://evil.example/pixel.png)",
    "<https://evil.example>",
    "```\n# heading\n</code>",
    "| a | b |\n|---|",
    "{{ 7 * 7 }} {% raw %}",
    "$x^2$ \\frac",
    "\u202egnp.exe\x1b[31m\x00",
    "&lt;b&gt; & ' \" `",
]


class Page(HTMLParser):
    """Elements with attributes, ids, links, and the visible text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in ("meta", "br", "hr"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def values(self, name: str) -> Iterator[str]:
        return (attributes[name] for _, attributes in self.elements if name in attributes)


@pytest.fixture
def write(
    project: Project,
    run: DiscoveryRun,
    result: DiscoveryResult,
    steps: list[ExplorationStep],
    tmp_path: Path,
) -> Write:
    def write(folder: str = "report", **changed: Any) -> ReportPaths:
        records: dict[str, Any] = {
            "project": project,
            "run": run,
            "result": result,
            "steps": steps,
            **changed,
        }
        return write_report(**records, folder=tmp_path / folder)

    return write


def test_both_files_are_written_and_nothing_else(write: Write) -> None:
    paths = write()
    assert sorted(p.name for p in paths.html.parent.iterdir()) == ["report.html", "report.md"]


def test_the_same_records_give_the_same_bytes(write: Write) -> None:
    first, second = write("a"), write("b")
    assert first.html.read_bytes() == second.html.read_bytes()
    assert first.markdown.read_bytes() == second.markdown.read_bytes()


def test_a_report_is_replaced_whole(write: Write) -> None:
    before = write().html.read_text()
    assert write().html.read_text() == before


def test_html_is_well_formed_and_stands_alone(write: Write) -> None:
    text = write().html.read_text()
    page = Page(text)
    assert not page.open
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "link", "iframe", "img", "object", "embed", "form", "base"}
    assert all(href.startswith("#") for href in page.values("href"))
    assert not list(page.values("src"))
    assert not [name for _, attributes in page.elements for name in attributes if name[:2] == "on"]
    assert "://" not in text
    assert "@import" not in text
    assert "url(" not in text.replace("url(#", "")


def test_every_link_leads_somewhere_and_no_id_is_used_twice(write: Write) -> None:
    page = Page(write().html.read_text())
    ids = list(page.values("id"))
    assert len(set(ids)) == len(ids)
    assert {href[1:] for href in page.values("href")} <= set(ids)


def test_the_summary_comes_first(write: Write) -> None:
    page = Page(write().html.read_text())
    sections = [a["id"] for tag, a in page.elements if tag == "section"]
    assert sections == [
        "summary",
        "area-1",
        "area-2",
        "recommendations",
        "scorecard",
        "method",
        "queries",
    ]
    assert "2 of 3 claims held against the data" in page.text


def test_every_claim_has_status_reasoning_evidence_row_and_sql(
    write: Write, result: DiscoveryResult
) -> None:
    paths = write()
    page, markdown = Page(paths.html.read_text()), paths.markdown.read_text()
    exact = set(page.values("value"))
    for insight in result.insights:
        assert insight.validation is not None
        for verdict in (insight.validation.verifier, insight.validation.refuter):
            for claim in verdict.claim_verdicts if verdict else []:
                for text in (claim.claim_text, claim.reasoning, claim.evidence.query_sql):
                    assert " ".join(text.split()) in page.text
                    assert text in markdown
                for value in (claim.evidence.row or {}).values():
                    assert (value if isinstance(value, str) else repr(value)) in exact
                    assert str(value) in markdown


def test_every_query_is_in_the_appendix_with_its_rows(
    write: Write, steps: list[ExplorationStep]
) -> None:
    paths = write()
    page, markdown = Page(paths.html.read_text()), paths.markdown.read_text()
    for step in steps:
        assert f"step-{step.step}" in set(page.values("id"))
        if step.query:
            assert step.query in page.text
            assert step.query in markdown
    assert "column nope does not exist" in page.text
    assert "main.flights" in page.text


def test_recommendations_and_insights_link_to_each_other(write: Write) -> None:
    text = write().html.read_text()
    insight = text[text.index('id="insight-segments-1"') : text.index('id="area-2"')]
    advice = text[text.index('id="recommendation-1"') : text.index('id="scorecard"')]
    assert 'href="#recommendation-1"' in insight
    assert 'href="#insight-segments-1"' in advice


def test_insights_stand_by_area_and_what_is_rejected_comes_last(
    write: Write, result: DiscoveryResult
) -> None:
    text = write().html.read_text()
    assert text.index("F9 has the longest") < text.index("Flights rise")
    assert "The data contradicts this. Do not act on it." in text
    second = result.insights[0].model_copy(update={"analysis_area": "segments"})
    moved = result.model_copy(update={"insights": [second, result.insights[1]]})
    text = write(result=moved, steps=[]).html.read_text()
    assert text.index('id="insight-segments-1"') < text.index('id="insight-trends-1"')


@pytest.mark.parametrize("status", [None, *Status])
def test_every_combined_status_has_plain_words(
    write: Write, result: DiscoveryResult, status: Status | None
) -> None:
    judged = InsightValidation(combined=status) if status else None
    insights = [i.model_copy(update={"validation": judged}) for i in result.insights]
    judged_result = result.model_copy(update={"insights": insights})
    text = write(result=judged_result, steps=[]).html.read_text()
    meta = status_meta(status)
    assert meta.tagline.replace("'", "&#39;") in text


@pytest.mark.parametrize(
    ("verifiers", "refuters", "words"),
    [
        (0, 0, "No finding was checked against the data in this run."),
        (1, 1, "1 of 2 findings was put to a verifier"),
        (2, 0, "no one tried to refute it"),
        (2, 1, "and 1 of them to a refuter"),
        (2, 2, "Every finding was put to a verifier"),
    ],
)
def test_the_method_claims_no_check_that_was_not_made(
    write: Write, result: DiscoveryResult, verifiers: int, refuters: int, words: str
) -> None:
    judged = result.insights[1].validation
    assert judged is not None
    insights = [
        insight.model_copy(
            update={
                "validation": judged.model_copy(
                    update={
                        "verifier": judged.verifier if n < verifiers else None,
                        "refuter": judged.refuter if n < refuters else None,
                    }
                )
            }
        )
        for n, insight in enumerate(result.insights)
    ]
    paths = write(result=result.model_copy(update={"insights": insights}), steps=[])
    assert words in paths.html.read_text()
    assert words in paths.markdown.read_text()


def test_an_offline_report_says_that_no_language_model_is_involved(
    write: Write, result: DiscoveryResult
) -> None:
    paths = write()
    for path in (paths.html, paths.markdown):
        assert "No language model is involved" in path.read_text()
    online = result.model_copy(update={"llm_provider": "anthropic", "llm_model": "claude-x"})
    text = write(result=online, steps=[]).html.read_text()
    assert "No language model" not in text
    assert "claude-x (anthropic)" in text


def test_series_and_rankings_have_a_picture_with_words(write: Write) -> None:
    page = Page(write().html.read_text())
    labels = [a["aria-label"] for tag, a in page.elements if tag == "svg"]
    assert [label.split(":")[0] for label in labels] == ["Bar chart", "Line chart"]
    assert all(a["role"] == "img" for tag, a in page.elements if tag == "svg")


def test_hostile_content_stays_text(
    write: Write, project: Project, result: DiscoveryResult, steps: list[ExplorationStep]
) -> None:
    every = " ".join(HOSTILE)
    bad_rows = [{text: text, "n": i} for i, text in enumerate(HOSTILE)]
    ranking = [{every: text, "$n$": 90 - i} for i, text in enumerate(HOSTILE)]
    bad = steps[1].model_copy(
        update={
            "query": every,
            "query_purpose": every,
            "query_result": ranking,
            "result_columns": [every, "$n$"],
        }
    )
    other = steps[2].model_copy(update={"query_result": bad_rows, "result_columns": HOSTILE})
    insights = [
        i.model_copy(
            update={
                "name": every,
                "description": every,
                "description_md": every,
                "metrics": {every: every},
                "indicators": HOSTILE,
                "target_segment": every,
                "ref": every if n else i.ref,
                "validation": _poisoned(i.validation, every),
            }
        )
        for n, i in enumerate(result.insights)
    ]
    advice = [
        r.model_copy(update={"title": every, "description": every, "actions": HOSTILE})
        for r in result.recommendations
    ]
    paths = write(
        project=project.model_copy(update={"name": every, "language": every}),
        result=result.model_copy(update={"insights": insights, "recommendations": advice}),
        steps=[bad, other],
    )
    text = paths.html.read_text()
    page = Page(text)
    assert not page.open
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "iframe", "img"}
    assert all(href.startswith("#") for href in page.values("href"))
    assert not [name for _, attributes in page.elements for name in attributes if name[:2] == "on"]
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", text)
    assert "{{ 7 * 7 }}" in page.text
    permissive = MarkdownIt("commonmark", {"html": True}).enable("table")
    page = Page(permissive.render(paths.markdown.read_text()))
    assert not {tag for tag, _ in page.elements} & {"script", "iframe", "img", "svg", "style"}
    assert all(href.startswith("#") for href in page.values("href"))


def _poisoned(validation: InsightValidation | None, text: str) -> InsightValidation | None:
    if validation is None or validation.verifier is None:
        return validation
    claims = [
        claim.model_copy(
            update={
                "claim_text": text,
                "reasoning": text,
                "evidence": claim.evidence.model_copy(
                    update={"row": {text: text}, "query_sql": text}
                ),
            }
        )
        for claim in validation.verifier.claim_verdicts
    ]
    verdict = validation.verifier.model_copy(
        update={"claim_verdicts": claims, "overall_reason": text}
    )
    return validation.model_copy(update={"verifier": verdict})


def test_a_discovery_without_findings_still_makes_a_report(
    write: Write, result: DiscoveryResult
) -> None:
    empty = result.model_copy(update={"insights": [], "recommendations": []})
    paths = write(result=empty, steps=[])
    assert "wrote no findings" in paths.html.read_text()
    assert "wrote no findings" in paths.markdown.read_text()


def test_missing_steps_and_odd_verdicts_are_shown_as_they_are(
    write: Write, result: DiscoveryResult
) -> None:
    insight = result.insights[0].model_copy(update={"source_steps": [99]})
    assert insight.validation is not None
    assert insight.validation.verifier is not None
    odd = insight.validation.verifier.model_copy(update={"overall": "spported"})
    odd.claim_verdicts[0].status = "spported"
    odd.claim_verdicts[0].evidence.step_id = 99
    judged = insight.validation.model_copy(update={"verifier": odd})
    insight = insight.model_copy(update={"validation": judged})
    text = write(result=result.model_copy(update={"insights": [insight]})).html.read_text()
    assert "Unverified" in text
    assert "step 99" in text
    assert "#step-99" not in text
