"""The splat cloud in memory."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from splat_engine.formats.conventions import sh_count, sh_degree

Float32 = NDArray[np.float32]
Int32 = NDArray[np.int32]

ARRAY_NAMES: tuple[str, ...] = ("means", "log_scales", "quats_wxyz", "opacity_logits", "sh")
"""What is optimised and drawn; [N, ...] float32 each."""


@dataclass
class Splats:
    """N Gaussians with raw (not activated) parameters, in Blender's world frame.

    Attributes:
        means: [N, 3] centres, scene units.
        log_scales: [N, 3] natural logarithm of the standard deviations along the splat's axes.
        quats_wxyz: [N, 4] rotation of those axes, any norm.
        opacity_logits: [N] logit of the opacity.
        sh: [N, K, 3] spherical harmonics of the colour, K in 1, 4, 9, 16.
        metadata: What a file's header says about the cloud (formation, source run ...).
        object_indices: [N] int32, which object of the captured scene a splat shows: i is entry i - 1 of
            ``object_names``, 0 is unknown; None where nobody has asked.
        object_names: Names of the captured scene's objects, those without splats too.
    """

    means: Float32
    log_scales: Float32
    quats_wxyz: Float32
    opacity_logits: Float32
    sh: Float32
    metadata: dict[str, str] = field(default_factory=dict)
    object_indices: Int32 | None = None
    object_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Casts to contiguous float32 and checks shapes.

        Raises:
            ValueError: An array's shape does not fit the others, or an index has no name.
        """
        for name in ARRAY_NAMES:
            setattr(self, name, np.ascontiguousarray(getattr(self, name), dtype=np.float32))
        count = self.means.shape[0] if self.means.ndim else 0
        expected: dict[str, tuple[int, ...]] = {
            "means": (count, 3),
            "log_scales": (count, 3),
            "quats_wxyz": (count, 4),
            "opacity_logits": (count,),
        }
        for name, shape in expected.items():
            if getattr(self, name).shape != shape:
                raise ValueError(f"{name} must have shape {shape}, got {getattr(self, name).shape}")
        if self.sh.ndim != 3 or self.sh.shape[0] != count or self.sh.shape[2] != 3:
            raise ValueError(f"sh must have shape ({count}, K, 3), got {self.sh.shape}")
        sh_degree(self.sh.shape[1])
        if self.object_indices is not None:
            self._check_objects(count)

    def _check_objects(self, count: int) -> None:
        self.object_indices = np.ascontiguousarray(self.object_indices, dtype=np.int32)
        if self.object_indices.shape != (count,):
            raise ValueError(f"object_indices must have shape ({count},), got {self.object_indices.shape}")
        last = len(self.object_names)
        if count and not 0 <= self.object_indices.min() <= self.object_indices.max() <= last:
            raise ValueError(f"object_indices must be 0 to {last}, the number of object_names")

    def __len__(self) -> int:
        """Returns N."""
        return int(self.means.shape[0])

    @property
    def sh_degree(self) -> int:
        """The degree of the spherical harmonics, 0 to 3."""
        return sh_degree(self.sh.shape[1])

    @classmethod
    def empty(cls, degree: int = 0) -> Splats:
        """Returns a cloud of no splats."""
        return cls(
            means=np.zeros((0, 3), np.float32),
            log_scales=np.zeros((0, 3), np.float32),
            quats_wxyz=np.zeros((0, 4), np.float32),
            opacity_logits=np.zeros(0, np.float32),
            sh=np.zeros((0, sh_count(degree), 3), np.float32),
        )

    def select(self, index: ArrayLike) -> Splats:
        """Returns the splats chosen by a boolean mask [N] or an index array, in that order."""
        chosen: Any = np.asarray(index)
        if chosen.size == 0 and chosen.dtype != np.bool_:
            chosen = chosen.astype(np.intp)
        arrays = {name: getattr(self, name)[chosen] for name in ARRAY_NAMES}
        indices = None if self.object_indices is None else self.object_indices[chosen]
        return replace(self, **arrays, object_indices=indices, metadata=dict(self.metadata))

    def with_sh_degree(self, degree: int) -> Splats:
        """Returns the cloud with its SH cut, or filled with zeros, to a degree."""
        count = sh_count(degree)
        sh = np.zeros((len(self), count, 3), np.float32)
        kept = min(count, self.sh.shape[1])
        sh[:, :kept] = self.sh[:, :kept]
        return replace(self, sh=sh, metadata=dict(self.metadata))

    def finite(self) -> NDArray[np.bool_]:
        """Returns [N]: True where every parameter of the splat is finite and its quaternion is not zero."""
        good: NDArray[np.bool_] = np.linalg.norm(self.quats_wxyz.astype(np.float64), axis=1) > 0
        for name in ARRAY_NAMES:
            is_finite = np.isfinite(getattr(self, name))
            if not is_finite.all():  # seldom, and a row at a time takes twice as long
                good &= is_finite.all(axis=tuple(range(1, is_finite.ndim)))
        return good

    def scales(self) -> Float32:
        """Returns [N, 3] standard deviations, scene units; infinite where float32 ends."""
        with np.errstate(over="ignore"):
            return np.exp(self.log_scales)

    def opacities(self) -> Float32:
        """Returns [N] opacities in 0 to 1; no overflow for large logits."""
        return (0.5 * (1.0 + np.tanh(0.5 * self.opacity_logits.astype(np.float64)))).astype(np.float32)
