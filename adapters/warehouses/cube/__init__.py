"""A Cube deployment as a datasource: its REST API, asked in Cube's own JSON queries."""

from __future__ import annotations

from adapters.warehouses.cube.warehouse import CubeWarehouse

__all__ = ["CubeWarehouse"]
