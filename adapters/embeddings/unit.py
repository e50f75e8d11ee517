"""Vectors of length one."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float32]


def unit_rows(rows: npt.NDArray[Any]) -> Matrix:
    """Each row scaled to length one; a row without length or with a value that is no number becomes
    the first axis, so that cosines stay defined. Shape is kept, the result is float32."""
    clean = np.array(rows, dtype=np.float64, ndmin=2)
    lengths = np.linalg.norm(clean, axis=1)
    lost = ~np.isfinite(lengths) | (lengths == 0)
    clean[lost] = 0.0
    clean[lost, :1] = 1.0
    lengths[lost] = 1.0
    return (clean / lengths[:, None]).astype(np.float32)
