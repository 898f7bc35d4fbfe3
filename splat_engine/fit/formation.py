"""Image formation: in which values splats are blended, and how a picture is compared.

``blender``: linear light is blended, and the composite is encoded with the sRGB curve. Splats are drawn wider for
the pixel filter that the views went through: a box of one pixel, or the wider one that Blender's pictures have.
``classic``: encoded colours are blended, with 0.3 px dilation; the composite is the picture.
Either way the compared picture is encoded, unbounded above. (In training the loss encodes by itself:
splat_engine.ops.photometric_loss.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from splat_engine.formats.capture import CaptureInfo, Split
from splat_engine.formats.conventions import (
    BOX_FILTER_VARIANCE_PX2,
    CLASSIC_DILATION_PX2,
    PIXEL_FILTER_VARIANCE_PX2,
    Formation,
)

_LINEAR_KNEE, _ENCODED_KNEE, _LINEAR_SLOPE = 0.0031308, 0.04045, 12.92


@torch.no_grad()
def encode_srgb(linear: Tensor) -> Tensor:
    """Encodes linear light, without gradient; above 1 the curve goes on, and below 0 its straight part.

    Source: IEC 61966-2-1.
    """
    high = linear.clamp_min(_LINEAR_KNEE).pow_(1 / 2.4).mul_(1.055).sub_(0.055)
    return torch.where(linear <= _LINEAR_KNEE, linear * _LINEAR_SLOPE, high)


@torch.no_grad()
def decode_srgb(encoded: Tensor) -> Tensor:
    """Decodes sRGB values to linear light, without gradient; negative values give 0.

    Source: IEC 61966-2-1.
    """
    low = encoded.clamp_min(0.0)
    high = low.add(0.055).div_(1.055).pow_(2.4)
    return torch.where(low <= _ENCODED_KNEE, low / _LINEAR_SLOPE, high)


@dataclass(frozen=True)
class ImageFormation:
    """One of the two image formations; values in its blending space are called "blended" below.

    Attributes:
        name: ``"blender"`` or ``"classic"``.
        filter_px2: Variance along each axis by which ``blender`` widens splats, for the pixel filter that the views went
            through.
        own_order: Whether ``blender`` blends each pixel in its own order, by the depths there, as Cycles does; otherwise
            all pixels take the order of the centres, as ``classic`` always does: that is faster.
    """

    name: Formation
    filter_px2: float = PIXEL_FILTER_VARIANCE_PX2
    own_order: bool = True

    @classmethod
    def of(cls, name: Formation, info: CaptureInfo) -> ImageFormation:
        """Returns the formation in which a capture's training views are drawn."""
        return cls(name, BOX_FILTER_VARIANCE_PX2 if info.box_filtered else PIXEL_FILTER_VARIANCE_PX2)

    @property
    def is_linear(self) -> bool:
        """Whether linear light is blended."""
        return self.name == "blender"

    @property
    def dilation_px2(self) -> float:
        """Variance added on the screen, px^2."""
        return self.filter_px2 if self.is_linear else CLASSIC_DILATION_PX2

    def is_filtered_anew(self, split: Split) -> bool:
        """Tells whether a split's views went through another filter than training views: that of Blender's pictures."""
        return split == "test" and self.is_linear and self.filter_px2 != PIXEL_FILTER_VARIANCE_PX2

    @property
    def by_ray(self) -> bool:
        """Whether each pixel blends in its own order."""
        return self.is_linear and self.own_order

    @property
    def antialiased(self) -> bool:
        """Whether a splat is dimmed by as much as the dilation enlarges it, as a filter does that keeps its light."""
        return self.is_linear

    def picture(self, blended: Tensor) -> Tensor:
        """Turns a composite in the blending space into the encoded picture that is looked at; no gradient."""
        return encode_srgb(blended) if self.is_linear else blended.detach()

    def from_encoded(self, encoded: Tensor) -> Tensor:
        """Brings encoded colours (a background, say) into the blending space; no gradient."""
        return decode_srgb(encoded) if self.is_linear else encoded

    def from_linear(self, premultiplied: Tensor, alpha: Tensor) -> Tensor:
        """Brings a scene-linear premultiplied target into the blending space, still premultiplied.

        Args:
            premultiplied: [H, W, 3] scene-linear.
            alpha: [H, W].

        Returns:
            [H, W, 3]; black where alpha is 0, except that the ``blender`` formation keeps pure emission.
        """
        if self.is_linear:
            return premultiplied
        opaque = premultiplied / alpha.clamp_min(1e-6)[..., None]
        return encode_srgb(opaque) * alpha[..., None]

    def from_display(self, straight: NDArray[Any], alpha: Tensor) -> Tensor:
        """Brings a display picture with straight alpha into the blending space, premultiplied.

        Args:
            straight: [H, W, 3] encoded, 0 to 255 if it is uint8, else float32 of 0 to 1.
            alpha: [H, W], 0 to 1.

        Returns:
            [H, W, 3] float32.
        """
        if straight.dtype != np.uint8:
            return self.from_encoded(torch.from_numpy(straight)) * alpha[..., None]
        table = self.from_encoded(torch.arange(256) / 255).numpy()  # a look into it is cheaper than a power
        return torch.from_numpy(table[straight]).mul_(alpha[..., None])
