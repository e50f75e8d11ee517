"""Who judges a document: the port that phases call, and its in-process implementation."""

from __future__ import annotations

from typing import Protocol

from pipeline.ports import LanguageModel
from pipeline.records import AgentMode, StructuredVerdict
from pipeline.settings import ValidationSettings
from pipeline.validation.agent import Agent
from pipeline.validation.bundle import Bundle
from pipeline.validation.tools import Tools


class ValidationAgents(Protocol):
    """One verifier and one refuter, or a pool of each. Calls may run at the same time.

    Both answer with a settled verdict. They raise ``RunSuperseded`` when the run is lost; any other
    exception means that the agent died, and the document is given to another one once.
    """

    async def verify(self, bundle: Bundle) -> StructuredVerdict: ...

    async def refute(self, bundle: Bundle) -> StructuredVerdict: ...


class LocalAgents:
    """Both agents in this process, over one model and one set of tools."""

    def __init__(
        self, model: LanguageModel, tools: Tools, settings: ValidationSettings | None = None
    ) -> None:
        self._verifier = Agent(AgentMode.VERIFIER, model, tools, settings)
        self._refuter = Agent(AgentMode.REFUTER, model, tools, settings)

    async def verify(self, bundle: Bundle) -> StructuredVerdict:
        """The verifier's verdict."""
        return await self._verifier.run(bundle)

    async def refute(self, bundle: Bundle) -> StructuredVerdict:
        """The refuter's verdict."""
        return await self._refuter.run(bundle)
