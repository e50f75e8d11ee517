from __future__ import annotations

from typing import Literal

import pytest

from adapters.llm.turns import Part, Turn, break_points, turns
from pipeline.ports import Message

Role = Literal["user", "assistant"]


def _messages(script: str) -> list[Message]:
    """``u``/``a`` a message each, upper case where it is marked as a break point."""
    roles: dict[str, Role] = {"u": "user", "a": "assistant"}
    return [Message(roles[c.lower()], f"{n}", cache=c.isupper()) for n, c in enumerate(script)]


def test_neighbours_of_the_same_role_are_merged_in_order() -> None:
    merged = turns(_messages("uuaau"))
    assert [(t.role, t.text) for t in merged] == [
        ("user", "0\n\n1"),
        ("assistant", "2\n\n3"),
        ("user", "4"),
    ]


def test_empty_texts_are_dropped_but_roles_go_on_alternating() -> None:
    merged = turns(
        [
            Message("user", "a"),
            Message("user", " ", cache=True),
            Message("assistant", ""),
            Message("user", "b"),
        ]
    )
    assert merged == [
        Turn("user", (Part("a", cache=True),)),
        Turn("assistant", (Part("(empty)"),)),
        Turn("user", (Part("b"),)),
    ]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("", set[tuple[int, int]]()),
        ("u", set[tuple[int, int]]()),
        ("U", {(0, 0)}),
        ("UU", {(0, 0), (0, 1)}),
        ("UUau", {(0, 0), (0, 1), (2, 0)}),  # a growing conversation is cached up to its end
        ("uau", {(2, 0)}),
        ("UUaUaU", {(0, 0), (2, 0), (4, 0)}),  # of too many: the first and the latest
        ("UUUU", {(0, 0), (0, 2), (0, 3)}),
    ],
)
def test_at_most_three_break_points_beside_the_system_text(
    script: str, expected: set[tuple[int, int]]
) -> None:
    assert break_points(turns(_messages(script))) == expected
