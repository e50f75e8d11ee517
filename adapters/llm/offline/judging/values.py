"""What the cited steps themselves say about a probe, before anything is asked again."""

from __future__ import annotations

from collections.abc import Sequence

from adapters.llm.offline.judging.probes import Beyond, ColumnSum, GroupCount, Probe, Scalar
from adapters.llm.offline.judging.steps import Step
from adapters.llm.offline.reading import number_of


def values_in_steps(
    probes: Sequence[Probe], steps: Sequence[Step]
) -> dict[Probe, float | int | None]:
    """What the cited steps themselves say about each probe; None where they cannot."""
    found: dict[Probe, float | int | None] = {}
    for probe in probes:
        step = steps[probe.step]
        if isinstance(probe, Scalar):
            found[probe] = number_of(step.rows[probe.row].get(probe.output))
        elif isinstance(probe, GroupCount):
            found[probe] = step.total
        elif isinstance(probe, ColumnSum):
            found[probe] = _column_sum(step, probe.output) if step.whole else None
        elif isinstance(probe, Beyond):
            found[probe] = _beyond(step, probe)
        else:
            found[probe] = None
    return found


def _column_sum(step: Step, output: str) -> float | int | None:
    numbers = [number_of(r.get(output)) for r in step.rows]
    return sum(n for n in numbers if n is not None)


def _beyond(step: Step, probe: Beyond) -> int | None:
    own = number_of(step.rows[probe.row].get(probe.output))
    if own is None or not step.whole:
        return None
    numbers = [number_of(r.get(probe.output)) for r in step.rows]
    others = [n for i, n in enumerate(numbers) if n is not None and i != probe.row]
    return sum(1 for n in others if (n - own) * probe.direction >= 0)
