"""A least-squares solver that outliers do not rule."""

from __future__ import annotations

from typing import Any

import numpy as np


def least_squares(residual: Any, first: Any, steps: int = 8, scale: float = 0.1) -> Any:
    """Gauss-Newton with weights that let residuals far beyond ``scale`` count linearly."""
    z, damping = np.array(first, dtype=float), 1e-3
    now = residual(z)
    for _ in range(steps):
        weight = (1 + (now / scale) ** 2) ** -0.25
        slope = np.stack([(residual(z + 1e-2 * e) - now) / 1e-2 for e in np.eye(len(z))], axis=1)
        a, b = slope * weight[:, None], now * weight
        for _ in range(5):
            step = np.linalg.solve(a.T @ a + damping * np.eye(len(z)), a.T @ b)
            tried = z - np.clip(step, -0.5, 0.5)
            found = residual(tried)
            if _soft(found, scale) < _soft(now, scale):
                break
            damping *= 10
        else:
            return z
        z, now, damping = tried, found, damping / 10
    return z


def _soft(values: Any, scale: float) -> float:
    return float(((1 + (values / scale) ** 2) ** 0.5 - 1).sum())
