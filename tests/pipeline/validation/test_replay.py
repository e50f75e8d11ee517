"""Replay: stored steps in, both verdicts side by side out."""

from __future__ import annotations

import pytest

from pipeline.errors import BadRequest, NotFound
from pipeline.records import (
    ClaimVerdict,
    DiscoveryResult,
    InsightValidation,
    Status,
    StructuredVerdict,
)
from pipeline.testing import ScriptedModel
from pipeline.validation.agents import LocalAgents
from pipeline.validation.phase import Validator
from pipeline.validation.policy import ConcurrentValidation
from pipeline.validation.replay import Change, changes, replay
from tests.pipeline.validation.world import NOW, World, claim, insight_of, recommendation_of, submit

READ = {"read_step_rows": {"step_id": 1}}


def stored() -> DiscoveryResult:
    confirmed = InsightValidation(
        combined=Status.CONFIRMED, verifier=StructuredVerdict(overall="confirmed")
    )
    return DiscoveryResult(
        id="d1",
        project_id="p1",
        run_id="r1",
        discovery_date=NOW,
        insights=[insight_of(1, validation=confirmed), insight_of(2, affected_count=9)],
        recommendations=[recommendation_of()],
    )


def validator_over_stored_steps(world: World) -> Validator:
    """No results in memory: only what the log kept."""
    world.results.clear()
    final = submit(claim(headline=True, status="rejected"), overall="rejected")
    model = ScriptedModel(lambda r: final if len(r.messages) > 2 else READ)
    agents = LocalAgents(model, world.tools, world.settings)
    return Validator(world.source, agents, world.settings, ConcurrentValidation(3))


async def test_every_document_is_judged_again_and_the_stored_ones_stay(world: World) -> None:
    discovery = stored()
    before = discovery.model_dump_json()
    replayed = await replay(discovery, validator_over_stored_steps(world))
    assert [r.doc.id for r in replayed] == [
        discovery.insights[0].id,
        discovery.insights[1].id,
        "rec-1",
    ]
    assert [r.after.combined for r in replayed] == [Status.REJECTED] * 3
    assert replayed[0].before == discovery.insights[0].validation
    assert Change("combined", "confirmed", "rejected") in replayed[0].changes
    assert Change("combined", "", "rejected") in replayed[1].changes
    assert replayed[2].row.doc_kind == "recommendation"
    assert discovery.model_dump_json() == before


@pytest.mark.parametrize("key", ["trends-2", insight_of(2).id])
async def test_one_insight_can_be_picked_by_id_or_ref(world: World, key: str) -> None:
    replayed = await replay(stored(), validator_over_stored_steps(world), only=[key])
    assert [r.doc.id for r in replayed] == [insight_of(2).id]


async def test_an_unknown_document_and_a_missing_model_are_refused(world: World) -> None:
    with pytest.raises(NotFound, match="no document nothing"):
        await replay(stored(), validator_over_stored_steps(world), only=["nothing"])
    with pytest.raises(BadRequest, match="needs a model"):
        await replay(stored(), Validator(world.source, None))


def test_changes_name_claims_that_moved_came_or_went() -> None:
    def validation(overall: str, **claims: str) -> InsightValidation:
        verdicts = [ClaimVerdict(claim_text=text, status=status) for text, status in claims.items()]
        verifier = StructuredVerdict(overall=overall, claim_verdicts=verdicts)
        return InsightValidation(combined=Status(overall), verifier=verifier)

    found = changes(
        validation("supported", same="supported", moved="supported", gone="confirmed"),
        validation("supported", same="supported", moved="rejected", new="partial"),
    )
    assert found == [
        Change("verifier claim: moved", "supported", "rejected"),
        Change("verifier claim: gone", "confirmed", ""),
        Change("verifier claim: new", "", "partial"),
    ]
