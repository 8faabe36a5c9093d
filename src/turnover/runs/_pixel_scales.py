"""Pixels that are not bytes: which numbers become 0 and 255, fitted on training images and the same for all others."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

BYTES, INTEGERS, FLOATS = 0, 1, 2
"""What the pixels of an image are."""

_NAMES = {INTEGERS: "integers", FLOATS: "floats"}
_SAMPLE = 2_000_000
_TAIL = 0.001


@dataclass(frozen=True)
class PixelScale:
    """The numbers that become 0 and 255; those beyond are clipped."""

    low: float
    high: float

    @classmethod
    def fit(cls, pixels: np.ndarray) -> "PixelScale":
        """Return the scale of training pixels: 0 to 1 or 0 to 255 where they suit that, else from least to greatest.

        A few pixels far beyond all others do not count: they would leave one gray value to the rest.
        """
        values = pixels.reshape(-1)
        low, high = float(values.min()), float(values.max())
        inner = np.quantile(values[:: max(1, len(values) // _SAMPLE)], [_TAIL, 1 - _TAIL]).tolist()
        width = inner[1] - inner[0]
        if 0 < width < inner[0] - low:
            low = inner[0]
        if 0 < width < high - inner[1]:
            high = inner[1]
        if low >= 0 and high <= 1:
            return cls(0.0, 1.0)
        if low >= 0 and 16 < high <= 255:
            return cls(0.0, 255.0)
        return cls(low, high if high > low else low + 1)

    def __call__(self, pixels: np.ndarray) -> np.ndarray:
        """Return pixels as bytes."""
        share = (pixels.astype(np.float64) - self.low) / (self.high - self.low)
        return (share.clip(0, 1) * 255).round().astype(np.uint8)


# Of images whose kind of pixels was not among the training images.
_DEFAULTS = {INTEGERS: PixelScale(0.0, 65535.0), FLOATS: PixelScale(0.0, 1.0)}


def fit_scales(pixels: np.ndarray, depths: np.ndarray, train: np.ndarray) -> dict[str, PixelScale]:
    """Return the scale of each kind of pixels that training images have, by its name."""
    kinds = [(name, (depths == depth) & train) for depth, name in _NAMES.items()]
    return {name: PixelScale.fit(pixels[rows]) for name, rows in kinds if rows.any()}


def in_bytes(pixels: np.ndarray, depth: int, scales: Mapping[str, PixelScale]) -> np.ndarray:
    """Return pixels of a kind as bytes."""
    if depth == BYTES:
        return pixels.astype(np.uint8)
    return scales.get(_NAMES[depth], _DEFAULTS[depth])(pixels)


def note_on(pixels: np.ndarray, depths: np.ndarray, scales: Mapping[str, PixelScale]) -> list[str]:
    """Return a sentence on each scale."""
    notes: list[str] = []
    for depth, name in _NAMES.items():
        if name in scales:
            scale, values = scales[name], pixels[depths == depth]
            outside = int(((values < scale.low) | (values > scale.high)).sum())
            clipped = f"; {outside:,} of {values.size:,} lie beyond and are clipped" if outside else ""
            notes.append(f"Pixels from {scale.low:g} to {scale.high:g} became 0 to 255, by training images{clipped}.")
    return notes
