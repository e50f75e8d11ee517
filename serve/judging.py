"""Verifier and refuter in this process, for replays and benches: without Ray, without a run."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence

from adapters.embeddings.hashing import HashingEmbedder
from adapters.llm import open_model
from adapters.llm.retry import OpenedModel
from adapters.warehouses import OpenWarehouse, open_warehouse
from pipeline.errors import BadRequest, ForOperator
from pipeline.ports import LanguageModel, StepRows, Warehouse
from pipeline.records import LlmConfig, StructuredVerdict, WarehouseConfig
from pipeline.schema.cache import CatalogCore
from pipeline.settings import Settings, ValidationSettings, WarehouseSettings
from pipeline.sql.healing import Healer
from pipeline.validation.agents import LocalAgents, ValidationAgents
from pipeline.validation.bundle import Bundle
from pipeline.validation.step_rows import StepSnapshot
from pipeline.validation.tools import WarehouseTools

log = logging.getLogger(__name__)


def model_named(spec: str, otherwise: LlmConfig) -> LlmConfig:
    """``PROVIDER[:MODEL]`` as a configuration; empty means ``otherwise``, whose settings also hold
    when it names the same provider. Raises ``BadRequest``."""
    if not spec.strip():
        return otherwise
    provider, _, model = (part.strip() for part in spec.partition(":"))
    if not provider:
        raise BadRequest(
            f"--model {spec!r} names no provider; write it as PROVIDER or PROVIDER:MODEL"
        )
    same = provider.lower() == otherwise.provider.strip().lower()
    config = otherwise.config if same else {}
    return LlmConfig(provider=provider, model=model, config=config)


@contextlib.asynccontextmanager
async def opened_model(llm: LlmConfig, settings: Settings) -> AsyncGenerator[OpenedModel]:
    """The model, once it has answered. Raises ``ModelError`` or ``BadRequest``."""
    model = await asyncio.to_thread(open_model, llm, settings.model)
    try:
        await model.ping()
        yield model
    finally:
        await model.close()


@contextlib.asynccontextmanager
async def opened_warehouses(
    configs: Sequence[WarehouseConfig], settings: WarehouseSettings
) -> AsyncGenerator[dict[str, OpenWarehouse]]:
    """Warehouses by datasource id, the primary first. One that is not the primary and cannot be
    opened is left out with a warning. Raises ``WarehouseUnavailable``, or ``BadRequest`` for none.
    """
    if not configs:
        raise BadRequest("the project has no warehouse; create it again with --warehouse")
    opened: dict[str, OpenWarehouse] = {}
    try:
        for config in configs:
            try:
                warehouse = opened[config.id] = open_warehouse(config, settings)
                await warehouse.ping()
            except ForOperator as error:
                if config is configs[0]:
                    raise
                log.warning("the datasource %s is left out: %s", config.id, error)
                if lost := opened.pop(config.id, None):
                    await lost.close()
        yield opened
    finally:
        for warehouse in opened.values():
            await warehouse.close()


def local_agents(
    model: LanguageModel,
    warehouses: Mapping[str, Warehouse],
    rows: StepRows,
    settings: ValidationSettings,
) -> LocalAgents:
    """Both agents over warehouses that are open. Their tools are those of a run."""
    catalog = CatalogCore(warehouses, HashingEmbedder())  # no tool searches it by meaning
    queries = {name: Healer(model, each, catalog) for name, each in warehouses.items()}
    return LocalAgents(model, WarehouseTools(queries, rows, catalog, settings), settings)


class AgentsByDatabase:
    """``ValidationAgents`` over databases that know nothing of each other, opened when first asked
    about and kept open. Close it."""

    def __init__(
        self, configs: Mapping[str, WarehouseConfig], model: LanguageModel, settings: Settings
    ) -> None:
        self._configs, self._model, self._settings = configs, model, settings
        self._opened: dict[str, OpenWarehouse] = {}
        self._agents: dict[str, ValidationAgents] = {}

    async def verify(self, bundle: Bundle) -> StructuredVerdict:
        """The verdict of that database's verifier."""
        return await self._of(bundle).verify(bundle)

    async def refute(self, bundle: Bundle) -> StructuredVerdict:
        """The verdict of that database's refuter."""
        return await self._of(bundle).refute(bundle)

    def _of(self, bundle: Bundle) -> ValidationAgents:
        name = bundle.warehouse.datasource_id
        if name not in self._agents:
            warehouse = self.warehouse(name)
            rows = StepSnapshot([], {})
            self._agents[name] = local_agents(
                self._model, {name: warehouse}, rows, self._settings.validation
            )
        return self._agents[name]

    def warehouse(self, name: str) -> OpenWarehouse:
        """The database of that name. Raises ``WarehouseUnavailable``."""
        if name not in self._opened:
            self._opened[name] = open_warehouse(self._configs[name], self._settings.warehouse)
        return self._opened[name]

    async def close(self) -> None:
        """Let go of every database."""
        for warehouse in self._opened.values():
            await warehouse.close()
