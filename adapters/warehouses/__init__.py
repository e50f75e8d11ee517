"""Warehouses behind the ``Warehouse`` port. Each driver is imported in its own module only."""

from __future__ import annotations

from adapters.warehouses.opening import OpenWarehouse, fingerprints, open_warehouse

__all__ = ["OpenWarehouse", "fingerprints", "open_warehouse"]
