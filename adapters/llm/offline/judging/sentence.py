"""One sentence tied to rows and outputs of one step."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal

from sqlglot import exp

from adapters.llm.offline.judging.arithmetic import over_pairs, own_contradiction
from adapters.llm.offline.judging.checks import (
    Check,
    Contradiction,
    FigureCheck,
    Formula,
    MovementCheck,
    RankCheck,
)
from adapters.llm.offline.judging.claims import Claim, Figure, mask
from adapters.llm.offline.judging.fit import fit
from adapters.llm.offline.judging.probes import (
    Beyond,
    ColumnSum,
    GroupCount,
    Leader,
    Probe,
    Scalar,
)
from adapters.llm.offline.judging.steps import Mention, Step, mentions_in, unknown_key
from adapters.llm.offline.judging.values import values_in_steps
from adapters.llm.offline.reading import number_of
from adapters.llm.offline.roles import same_word, singular
from adapters.llm.offline.schema import name_words, word_set
from adapters.llm.offline.sqlshape import Measure, literals_in, measure_of

_BARRIER = -3.0
_STRONG = 2.0
"""From this score on, the words alone say which output a figure is."""
_SPOKEN = 1.5
"""For an output that the text spoke of before, in a sentence about ``it`` or ``that``."""
_MARGIN = 0.9
"""An output that suits the words worse than the best by more than this is not meant."""
_GROUPS = re.compile(
    r"^\s*(?:distinct |different )?(values|combinations|groups|categories)\b", re.I
)
_TOGETHER = re.compile(r"\b(together|combined|in sum|add up)\b", re.IGNORECASE)
_ROW_WORDS = word_set("rows row records record entries of and in with times")
_PRONOUN = re.compile(r"\s*(it|that|they|this|these|its|their)\b", re.IGNORECASE)
_TO_MENTION = re.compile(
    r"^(?:\s*%)?(?:\s+[\w]+){0,2}?\s+(?:in|for|at|on|during|by|from)\s+(?:the\s+)?$", re.IGNORECASE
)


@dataclass(slots=True)
class Bound:
    """A claim with what must hold for it. ``loose`` are figures that no row explains."""

    claim: Claim
    checks: list[Check] = field(default_factory=list[Check])
    loose: list[Figure] = field(default_factory=list[Figure])

    @property
    def probes(self) -> list[Probe]:
        return [p for check in self.checks for p in check.probes]


@dataclass(slots=True)
class Context:
    """What the text spoke of last: the row that ``it`` and ``that`` mean."""

    step: int = 0
    row: int | None = None
    outputs: set[str] = field(default_factory=set[str])
    """The outputs that figures were tied to so far."""


class Sentence:
    """One sentence read against one step."""

    def __init__(
        self,
        claim: Claim,
        step: Step,
        position: int,
        context: Context,
        quiet: list[re.Pattern[str]],
    ) -> None:
        self.claim, self.step, self.position = claim, step, position
        self.masked = mask(claim.text, quiet)
        self.mentions = mentions_in(claim.text, position, step)
        own = context.row if context.step == position else None
        single = len(step.rows) == 1
        pronoun = _PRONOUN.match(claim.text) is not None
        spoken_of = step.whole or pronoun
        self.spoken = set(context.outputs) if pronoun else set[str]()
        self.fallback = 0 if single else own if spoken_of else None
        self.literals = literals_in(step.shapes)
        self.taken: set[Probe] = set()

    def bind(self) -> Bound:
        bound = Bound(self.claim)
        for figure, mention in self._assigned():
            check = self._figure(figure, mention)
            if check is not None:
                bound.checks.append(check)
                self.taken.update(check.probes)
            elif not self._parameter(figure):
                bound.loose.append(figure)
        self._untangle(bound)
        bound.checks += own_contradiction(self.claim.figures, self.masked, bound.checks)
        bound.checks += self._movement(bound)
        bound.checks += self._rank(bound)
        bound.checks += self._stranger()
        return bound

    def _untangle(self, bound: Bound) -> None:
        """Of ``X over Y rows``, X is not the count that Y is."""
        for first, second in over_pairs(self.claim.figures, self.masked):
            tied = {c.figure: c for c in bound.checks if isinstance(c, FigureCheck)}
            check, other = tied.get(first), tied.get(second)
            if check is None or other is None or check.probes != other.probes:
                continue
            probe = check.probes[0]
            if not isinstance(probe, Scalar):
                continue
            free = [n for n in self.step.figures(probe.row) if n != probe.output]
            if free:
                instead = Scalar(probe.step, probe.row, free[0])
                bound.checks[bound.checks.index(check)] = FigureCheck(
                    first, Formula.CELL, (instead,)
                )

    def _assigned(self) -> list[tuple[Figure, Mention | None]]:
        """Each figure with the row it belongs to."""
        figures, mentions = self.claim.figures, self.mentions
        listed = len(mentions) > 1 and len(figures) == len(mentions)
        if listed and mentions[-1].end <= figures[0].start:
            return list(zip(figures, mentions, strict=True))
        return [(f, self._nearest(f)) for f in figures]

    def _nearest(self, figure: Figure) -> Mention | None:
        before = [m for m in self.mentions if m.end <= figure.start]
        after = [m for m in self.mentions if m.start >= figure.end]
        if after and _TO_MENTION.match(self.masked[figure.end : after[0].start]):
            return after[0]
        if before:
            return before[-1]
        return after[0] if after else None

    def _figure(self, figure: Figure, mention: Mention | None) -> FigureCheck | None:
        if self._counts_groups(figure):
            distinct = self._cell(figure, mention) if self._distinct_near(figure) else None
            return distinct or FigureCheck(figure, Formula.CELL, (GroupCount(self.position),))
        moved = self._change(figure)
        if moved is not None:
            return moved
        if _TOGETHER.search(self.masked):
            derived = self._derived(figure)
            if derived is not None:
                return derived
        return self._cell(figure, mention) or self._derived(figure)

    def _counts_groups(self, figure: Figure) -> bool:
        """``16 values``, ``105 destinations``: the number of groups of a grouped step."""
        if not self.step.shapes or not self.step.shapes[0].grouped or figure.percent:
            return False
        tail = self.masked[figure.end :]
        if _GROUPS.match(tail):
            return True
        noun = re.match(r"\s*(?:distinct |different |unique )?([^\W\d_]{3,})", tail)
        if noun is None or noun.group(1).lower() in _ROW_WORDS:
            return False
        tables = {singular(t) for t in self.step.shapes[0].tables}
        spoken = noun.group(1).lower()
        keys = [w for k in self.step.shapes[0].keys for w in name_words(k.name)]
        return singular(spoken) not in tables and any(same_word(w, spoken) for w in keys)

    def _distinct_near(self, figure: Figure) -> bool:
        return "distinct" in self.masked[max(0, figure.start - 20) : figure.end + 20].lower()

    def _since(self, figure: Figure) -> int:
        """Where the figure before this one ends."""
        return max((f.end for f in self.claim.figures if f.end <= figure.start), default=0)

    def _row(self, mention: Mention | None) -> int | None:
        return mention.row if mention is not None else self.fallback

    def _cell(self, figure: Figure, mention: Mention | None) -> FigureCheck | None:
        row = self._row(mention)
        if row is None:
            return self._top_row(figure)
        since = self._since(figure)
        scored = [
            (
                fit(figure, self.claim.text, self.step, row, name, since=since)
                + (_SPOKEN if name in self.spoken else 0.0),
                Scalar(self.position, row, name),
            )
            for name in self.step.figures(row)
        ]
        scored = sorted((s for s in scored if s[0] > _BARRIER), key=lambda s: -s[0])
        floor = scored[0][0] - _MARGIN if scored and scored[0][0] >= _STRONG else _BARRIER
        agreeing = [
            probe
            for score, probe in scored
            if score >= floor and figure.agrees(number_of(self.step.rows[row].get(probe.output)))
        ]
        fresh = [p for p in agreeing if p not in self.taken]
        pick = (fresh or agreeing or [None])[0]
        if pick is not None:
            return FigureCheck(figure, Formula.CELL, (pick,))
        if figure.percent:
            derived = self._share(figure, row)
            if derived is not None:
                return derived
        strong = [p for score, p in scored if score >= max(_STRONG, floor)]
        strong = [p for p in strong if p not in self.taken] or strong
        if self._parameter(figure) and not strong:
            return None
        free = [p for _, p in scored if p not in self.taken]
        best = (strong or free or [None])[0]
        if best is None:
            return None
        if not strong and self._derived(figure) is not None:
            return None
        return FigureCheck(figure, Formula.CELL, (best,))

    def _share(self, figure: Figure, row: int) -> FigureCheck | None:
        """A percentage that no output holds: one count of the row over another, or over all."""
        counts = [
            Scalar(self.position, row, n)
            for n in self.step.figures(row)
            if self.step.kind(row, n)
            in {Measure.ROWS, Measure.WHOLE, Measure.DISTINCT, Measure.SUM}
        ]
        pairs: list[tuple[Probe, Probe]] = [(a, b) for a in counts for b in counts if a != b]
        if len(self.step.rows) > 1 and len(self.step.shapes) == 1:
            pairs += [(ColumnSum(self.position, p.output), p) for p in counts]
        for whole, part in pairs:
            check = FigureCheck(figure, Formula.SHARE, (whole, part))
            if check.outcome(values_in_steps([whole, part], self._all())) in {"exact", "rounded"}:
                return check
        has_share = any(self.step.kind(row, n) is Measure.SHARE for n in self.step.figures(row))
        if pairs and not has_share:
            return FigureCheck(figure, Formula.SHARE, pairs[0])
        return None

    def _all(self) -> list[Step]:
        """A list in which this step stands at its own position."""
        return [self.step] * (self.position + 1)

    def _top_row(self, figure: Figure) -> FigureCheck | None:
        """No row is named: the figure of the first or the last group, or a sum over all."""
        claimed = self.claim.superlative
        names = self.step.figures(0) if self.step.rows else []
        scored = sorted(
            ((fit(figure, self.claim.text, self.step, 0, n), n) for n in names), key=lambda s: -s[0]
        )
        scored = [s for s in scored if s[0] > _BARRIER]
        for _, name in scored:
            whole = ColumnSum(self.position, name)
            if figure.agrees(values_in_steps([whole], self._all())[whole]):
                return FigureCheck(figure, Formula.CELL, (whole,))
        wholes = [n for n in names if self.step.kind(0, n) is Measure.WHOLE]
        for name in wholes:
            probe = Scalar(self.position, 0, name)
            if figure.agrees(number_of(self.step.rows[0].get(name))):
                return FigureCheck(figure, Formula.CELL, (probe,))
        if claimed is None or not scored or not self.step.whole:
            return None
        best = scored[0][1]
        numbers = [(number_of(r.get(best)), i) for i, r in enumerate(self.step.rows)]
        known = sorted(
            ((float(n), i) for n, i in numbers if n is not None),
            key=lambda pair: -pair[0] * claimed.direction,
        )
        if len(known) <= claimed.above:
            return None
        return FigureCheck(
            figure, Formula.CELL, (Scalar(self.position, known[claimed.above][1], best),)
        )

    def _change(self, figure: Figure) -> FigureCheck | None:
        """``rose by 4.2% from … to …``: a change between the first and the last named row."""
        by = re.search(r"\bby\s*$", self.masked[: figure.start])
        if not self.claim.movement or not by or len(self.mentions) < 2:
            return None
        name = self._moving()
        if name is None:
            return None
        pair = tuple(
            Scalar(self.position, m.row, name) for m in (self.mentions[0], self.mentions[-1])
        )
        formula = Formula.CHANGE if figure.percent else Formula.DIFFERENCE
        return FigureCheck(figure, formula, pair, unsigned=True)

    def _moving(self) -> str | None:
        """The output that moves: the one the sentence's other figures come from, or fits best."""
        row = self.mentions[0].row
        names = self.step.figures(row)
        votes = dict.fromkeys(names, 0.0)
        for figure in self.claim.figures:
            mention = self._nearest(figure)
            if mention is None:
                continue
            for name in names:
                if figure.agrees(number_of(self.step.rows[mention.row].get(name))):
                    votes[name] += 2
                votes[name] += 0.1 * fit(figure, self.claim.text, self.step, mention.row, name)
        return max(names, key=lambda n: votes[n]) if names else None

    def _derived(self, figure: Figure) -> FigureCheck | None:
        """A difference, a ratio or a sum of two named rows."""
        rows = list(dict.fromkeys(m.row for m in self.mentions))
        if len(rows) < 2:
            return None
        tail = self.masked[figure.end : figure.end + 8].lower()
        for name in self.step.figures(rows[0]):
            pair = tuple(Scalar(self.position, r, name) for r in rows[:2])
            for formula in (Formula.DIFFERENCE, Formula.TIMES, Formula.SUM):
                if formula is Formula.TIMES and "time" not in tail:
                    continue
                for ordered in (pair, pair[::-1]):
                    check = FigureCheck(figure, formula, ordered)
                    if check.outcome(values_in_steps(ordered, self._all())) in {"exact", "rounded"}:
                        return check
        return None

    def _parameter(self, figure: Figure) -> bool:
        """A number that the step's own SQL spells out, such as a threshold."""
        return not figure.percent and any(
            abs(float(figure.value) - v) < 1e-9 for v in self.literals
        )

    def _movement(self, bound: Bound) -> list[Check]:
        if not self.claim.movement or len(self.mentions) < 2:
            return []
        name = self._moving()
        if name is None:
            return []
        first, last = (
            Scalar(self.position, m.row, name) for m in (self.mentions[0], self.mentions[-1])
        )
        return [MovementCheck(first, last, self.claim.movement)] if first != last else []

    def _rank(self, bound: Bound) -> list[Check]:
        """A superlative about a named row, by the output that its figure came from."""
        claimed = self.claim.superlative
        shape = self.step.shape_of(0) if self.step.rows else None
        if claimed is None or shape is None or not shape.grouped or len(self.step.shapes) > 1:
            return []
        row = self._subject(claimed.start)
        if row is None:
            return []
        output = self._ranked_output(bound, row)
        if output is None:
            return []
        beyond = Beyond(self.position, row, output, claimed.direction)
        parts = [k.name for k in shape.keys] + [output]
        leaders = tuple(
            Leader(self.position, output, claimed.direction, part, claimed.above) for part in parts
        )
        return [RankCheck(beyond, claimed.above, leaders)]

    def _subject(self, at: int) -> int | None:
        """The row that a superlative is about: the nearest one named, else the context."""
        if not self.mentions:
            return self.fallback
        return min(self.mentions, key=lambda m: min(abs(m.start - at), abs(m.end - at))).row

    def _ranked_output(self, bound: Bound, row: int) -> str | None:
        ranked = {Measure.WHOLE}
        named = [
            p.output
            for c in bound.checks
            if isinstance(c, FigureCheck) and c.formula is Formula.CELL
            for p in c.probes
            if isinstance(p, Scalar) and p.row == row
        ]
        names = [n for n in self.step.figures(row) if self.step.kind(row, n) not in ranked]
        end = len(self.claim.text)
        spoken = Figure(Decimal(0), end, end, 0, False, False, "")
        scores = {n: fit(spoken, self.claim.text, self.step, row, n, whole=True) for n in names}
        order = sorted(names, key=lambda n: (-scores[n], names.index(n)))
        if order and scores[order[0]] >= 2:
            return self._plain_output(order[0], names, row)
        if named and named[0] in names:
            return self._plain_output(named[0], names, row)
        return self._plain_output(order[0], names, row) if order else None

    def _plain_output(self, name: str, names: list[str], row: int) -> str:
        """A share over all groups ranks as its count does, and a count can be asked for again."""
        output = self.step.output(row, name)
        if output is None or not _has_whole(output.expression):
            return name
        return next(
            (n for n in names if self.step.kind(row, n) in {Measure.ROWS, Measure.SUM}), name
        )

    def _stranger(self) -> list[Check]:
        """The sentence names a group that the whole result does not have."""
        if not self.step.shapes or not self.step.shapes[0].grouped or self.mentions:
            return []
        if not unknown_key(mask(self.claim.text, []), self.step):
            return []
        names = self.step.figures(0)
        if not names:
            return []
        probe = Scalar(self.position, 0, names[0])
        return [Contradiction(probe, "the result has no group of the name that the text gives")]


def _has_whole(expression: exp.Expr) -> bool:
    """True when a measure compares with all groups through a window."""
    return any(measure_of(w) is Measure.WHOLE for w in expression.find_all(exp.Window))
