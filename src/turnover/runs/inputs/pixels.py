"""Images as numbers: channels first, standardized by the training images."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class PixelInputs:
    """Turns images, uint8 [images, height, width, channels], into float32 [images, channels, height, width]."""

    mean: tuple[float, ...]
    spread: tuple[float, ...]
    size: tuple[int, int]
    kind = "pixels"

    @classmethod
    def fit(cls, images: np.ndarray) -> "PixelInputs":
        """Return what suits training images."""
        scaled = images.reshape(-1, images.shape[-1]) / np.float32(255)
        spread = np.maximum(scaled.std(axis=0), 1e-3)
        return cls(
            tuple(scaled.mean(axis=0).astype(float).tolist()),
            tuple(spread.astype(float).tolist()),
            (int(images.shape[1]), int(images.shape[2])),
        )

    @property
    def channels(self) -> int:
        """Return how many channels images have."""
        return len(self.mean)

    def __call__(self, images: np.ndarray) -> Tensor:
        """Return the images as a network takes them."""
        pixels = torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2).float() / 255
        mean, spread = (torch.tensor(values).view(1, -1, 1, 1) for values in (self.mean, self.spread))
        return ((pixels - mean) / spread).contiguous()
