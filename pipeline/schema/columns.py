"""Columns as shared records: a warehouse repeats the same few columns in thousands of tables."""

from __future__ import annotations

from pipeline.records import Column, ColumnCategory
from pipeline.schema.categories import categorise


class ColumnPool:
    """Makes each different column once. Its records are shared: copy one before changing it."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, str, bool, ColumnCategory], Column] = {}
        self._categories: dict[tuple[str, str, bool], ColumnCategory] = {}

    def listed(self, name: str, type_name: str, nullable: bool, *, is_key: bool = False) -> Column:
        """A column as a warehouse lists it; its category follows from its name and type."""
        key = (name, type_name, is_key)
        category = self._categories.get(key)
        if category is None:
            category = self._categories[key] = categorise(name, type_name, is_key=is_key)
        return self.of(name, type_name, nullable, category)

    def of(self, name: str, type_name: str, nullable: bool, category: ColumnCategory) -> Column:
        """The column of these values."""
        key = (name, type_name, nullable, category)
        column = self._made.get(key)
        if column is None:
            column = self._made[key] = Column(
                name=name, type=type_name, nullable=nullable, category=category
            )
        return column
