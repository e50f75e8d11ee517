"""What one exploration may spend, and what is left of it."""

from __future__ import annotations

from dataclasses import dataclass

LOOKUP_TABLES = 10


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of a run. The defaults are the reference's constants."""

    max_steps: int = 100
    min_steps: int = 0
    """A done signal before this step is rejected; never more than ``max_steps``."""
    lookup_calls: int = 30
    lookup_tables: int = LOOKUP_TABLES
    """New tables a lookup call; tables that were fetched before are free."""
    search_calls: int = 30
    correlation_calls: int = 12
    parse_retries: int = 3
    """Times that an unusable reply is asked for again within one step."""

    @property
    def floor(self) -> int:
        return max(0, min(self.min_steps, self.max_steps))

    def stated(self) -> dict[str, int]:
        """The budget as the first message states it."""
        return {
            "max_steps": self.max_steps,
            "min_steps": self.floor,
            "lookup_calls": self.lookup_calls,
            "lookup_tables_per_call": self.lookup_tables,
            "search_calls": self.search_calls,
        }


@dataclass(slots=True)
class Allowance:
    """A number of calls that only ever goes down, whatever becomes of a call."""

    left: int

    def take(self) -> bool:
        """Spend one call; False when none is left."""
        if self.left <= 0:
            return False
        self.left -= 1
        return True
