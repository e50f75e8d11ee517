"""What the offline explorer asks: questions by theme, each with its SQL and a plain sentence."""

from __future__ import annotations

from adapters.llm.offline.questions.question import Question, Theme

__all__ = ["Question", "Theme"]
