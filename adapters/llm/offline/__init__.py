"""The offline analyst: plays the model's roles by rules, and says so wherever it appears."""

from __future__ import annotations

from adapters.llm.offline.model import OfflineAnalyst

__all__ = ["OfflineAnalyst"]
