"""What was measured of key pairs goes to the store and comes back from it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime

from pipeline.correlations.candidates import identity
from pipeline.correlations.overlap import Overlap
from pipeline.errors import StoreUnavailable
from pipeline.ports import PairStore
from pipeline.records import KeyPair, MeasuredPair

log = logging.getLogger(__name__)


async def recalled(store: PairStore) -> dict[tuple[str, ...], MeasuredPair]:
    """What counts of the pairs that were measured before, by ``identity``."""
    try:
        kept = await store.measured()
    except StoreUnavailable as error:
        log.warning("what was measured of key pairs is not used: %s", error)
        return {}
    return {identity(KeyPair(left=one.left, right=one.right)): one for one in kept}


async def keep(
    store: PairStore, found: Sequence[tuple[KeyPair, Overlap | str]], now: datetime
) -> None:
    """Keep what could be measured; what could not is tried again the next time."""
    pairs = [
        MeasuredPair(
            left=pair.left,
            right=pair.right,
            asked_left=overlap.asked_left,
            found_left=overlap.found_left,
            asked_right=overlap.asked_right,
            found_right=overlap.found_right,
            measured_at=now,
        )
        for pair, overlap in found
        if isinstance(overlap, Overlap)
    ]
    if not pairs:
        return
    try:
        await store.keep_measured(pairs)
    except StoreUnavailable as error:
        log.warning("what was measured of key pairs is not kept: %s", error)


def overlap_of(kept: MeasuredPair, pair: KeyPair) -> Overlap:
    """What was measured, in the order of the pair's sides."""
    overlap = Overlap(kept.asked_left, kept.found_left, kept.asked_right, kept.found_right)
    return overlap if kept.left == pair.left else overlap.mirrored
