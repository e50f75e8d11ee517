"""How objects are found in a free-form reply."""

from __future__ import annotations

import pytest

from pipeline.replies import Broken, Object, after_last_thought, objects, scan


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("no braces", []),
        ('a {"a": 1} b {"b": {"c": "}"}} c', [{"a": 1}, {"b": {"c": "}"}}]),
        ('{"a": 1} {oops} {"b": 2}', [{"a": 1}, Broken("{oops}", cut_off=False), {"b": 2}]),
        ('{"a": {"b": 1}', [Broken('{"a": {"b": 1}', cut_off=True)]),
        ('{a, b and {"c": 1}', [Broken('{a, b and {"c": 1}', cut_off=True)]),
        ("{a, b and no object", []),
        (
            '```sql\nSELECT {x\n```\n```json\n{"c": 1}\n```',
            [{"c": 1}],
        ),
        (
            '{a <think>\n```\n{"b": 1}\n```\n</think>\n```\n{"c": 1}\n```',
            [{"c": 1}],
        ),
        ('{a\n```\n{"c": 1}\n{"d": \n```', [{"c": 1}, Broken('{"d": \n', cut_off=True)]),
        ('{"a": "\\"}"}', [{"a": '"}'}]),
        ('{"a": Infinity}', [Broken('{"a": Infinity}', cut_off=False)]),
    ],
)
def test_objects_are_found_in_order_and_never_inside_a_broken_one(
    text: str, found: list[Object | Broken]
) -> None:
    assert scan(text).found == found
    assert list(objects(text)) == [item for item in found if not isinstance(item, Broken)]


@pytest.mark.parametrize(
    ("text", "found", "reasoning"),
    [
        ('<think>x {"a": 1}</think>{"b": 2}', [{"b": 2}], 'x {"a": 1}'),
        ('{"b": 2}<thinking>x', [{"b": 2}], "x"),
        ('x {"a": 1}</think>{"b": 2}', [{"b": 2}], 'x {"a": 1}'),
        ("<think>a</think><think>b</think>", [], "a\nb"),
        ("<think>a<think>b</think>", [], "a b"),
        ('{"b": 2}<reasoning>{"a": 1}</reasoning>', [{"b": 2}], '{"a": 1}'),
        ('<Thought>{"a": 1}</Thought>{"b": 2}', [{"b": 2}], '{"a": 1}'),
        ('<seed:think>{"a": 1}</seed:think>{"b": 2}', [{"b": 2}], '{"a": 1}'),
        ('[THINK]{"a": 1}[/THINK]{"b": 2}', [{"b": 2}], '{"a": 1}'),
        ('[think] {"b": 2}', [{"b": 2}], ""),
        ('<thinker> {"b": 2} </thinker>', [{"b": 2}], ""),
    ],
)
def test_think_blocks_are_set_aside(text: str, found: list[Object], reasoning: str) -> None:
    assert (scan(text).found, scan(text).reasoning) == (found, reasoning)


@pytest.mark.parametrize(
    ("text", "tail"),
    [
        ("a {b </think> c", " c"),
        ("a</think>b</thinking>c", "c"),
        ("no tag", None),
        ('{"a": "</think>"}', None),
        ("```json</think>", None),
    ],
)
def test_the_tail_after_a_thought_is_only_sought_in_replies_that_begin_as_prose(
    text: str, tail: str | None
) -> None:
    assert after_last_thought(text) == tail
