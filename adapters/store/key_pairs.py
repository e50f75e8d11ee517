"""What was measured of key pairs between the datasources of a project. Rows expire by age."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from adapters.store.documents import from_document, to_document
from pipeline.correlations.candidates import identity
from pipeline.records import KeyPair, MeasuredPair
from pipeline.schema.fingerprint import SCHEMA_TTL

if TYPE_CHECKING:
    from adapters.store.client import Collection


def _now() -> datetime:
    return datetime.now(UTC)


class KeyPairRepository:
    """Collection ``project_key_pairs``."""

    def __init__(self, collection: Collection) -> None:
        self.pairs = collection

    def of_project(
        self,
        project_id: str,
        fingerprints: Mapping[str, str],
        clock: Callable[[], datetime] = _now,
    ) -> ProjectKeyPairs:
        """The project's pairs, while its datasources are as ``fingerprints`` (by id) say."""
        return ProjectKeyPairs(self.pairs, project_id, fingerprints, clock)


class ProjectKeyPairs:
    """``ports.PairStore`` of one project."""

    def __init__(
        self,
        pairs: Collection,
        project_id: str,
        fingerprints: Mapping[str, str],
        clock: Callable[[], datetime],
    ) -> None:
        self._pairs, self._project, self._clock = pairs, project_id, clock
        self._fingerprints = dict(fingerprints)

    async def measured(self) -> list[MeasuredPair]:
        """See ``ports.PairStore``."""
        oldest = self._clock() - SCHEMA_TTL
        found: list[MeasuredPair] = []
        async for document in self._pairs.stream({"project_id": self._project}):
            pair = from_document(MeasuredPair, document)
            if pair.measured_at > oldest and document["fingerprints"] == self._prints(pair):
                found.append(pair)
        return found

    async def keep_measured(self, pairs: Sequence[MeasuredPair]) -> None:
        """See ``ports.PairStore``."""
        for pair in pairs:
            key = self._key(pair)
            more = {"project_id": self._project, "fingerprints": self._prints(pair)}
            document = {"_id": key, **to_document(pair, **more)}
            await self._pairs.replace({"_id": key}, document, upsert=True)

    def _prints(self, pair: MeasuredPair) -> list[str]:
        sides = (pair.left.datasource_id, pair.right.datasource_id)
        return [self._fingerprints.get(side, "") for side in sides]

    def _key(self, pair: MeasuredPair) -> str:
        """The same for a pair and its mirror image."""
        sides = json.dumps(identity(KeyPair(left=pair.left, right=pair.right)))
        return f"{self._project}:{hashlib.sha256(sides.encode()).hexdigest()}"
