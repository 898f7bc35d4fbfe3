"""Adam with a learning rate for each parameter group, and their schedules.

Source: Kerbl et al. 2023; Kingma and Ba 2015.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from splat_engine.fit.drawing import CameraOptions, camera_options
from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.model import PARAMETER_NAMES, SplatState
from splat_engine.fit.schedule import Schedule
from splat_engine.formats.cameras import Camera
from splat_engine.formats.settings import OptimizerSettings
from splat_engine.ops import ScreenGradients, update_splats


def exponential(first: float, last: float, share: float) -> float:
    """Returns the value at ``share`` (0 to 1) of a geometric run from ``first`` to ``last``; linear if either is 0."""
    if first <= 0 or last <= 0:
        return first + (last - first) * share
    return float(first * (last / first) ** share)


class Seen(NamedTuple):
    """What one view says about the splats.

    Attributes:
        gradients: Of the loss by the splats on the screen.
        radii: [N, 2] px, 0 for a culled splat.
        viewmat, intrinsics: The camera as tensors.
        camera: The same in words.
    """

    gradients: ScreenGradients
    radii: Tensor
    viewmat: Tensor
    intrinsics: Tensor
    camera: Camera


class UpdateOptions(CameraOptions):
    """How splats are updated; keywords of ``update_splats`` and ``train_step``."""

    rates: dict[str, float]
    step: int
    degree: int
    decode: bool
    sparse: bool


class Adam:
    """Updates a ``SplatState`` in place.

    Args:
        settings: The rates; those of the means are multiplied by ``extent``.
        formation: The image formation.
        extent: The scene's, scene units.
        schedule: Says how far along a step is.
        backend: "cpu", "cuda" or "reference".
    """

    def __init__(
        self,
        settings: OptimizerSettings,
        formation: ImageFormation,
        *,
        extent: float,
        schedule: Schedule,
        backend: str = "cpu",
    ) -> None:
        self.settings = settings
        self.formation = formation
        self.extent = extent
        self.schedule = schedule
        self.backend = backend

    def rates(self, step: int) -> dict[str, float]:
        """Returns the learning rate of each group at a step, counted from 1; "sh_dc" is that of the constant colour."""
        share, settings = self.schedule.share(step), self.settings
        fading = exponential(1.0, settings.final_share, share)
        return {
            "means": exponential(settings.means, settings.means_final, share) * self.extent,
            "log_scales": settings.log_scales * fading,
            "quats_wxyz": settings.quats * fading,
            "opacity_logits": settings.opacity_logits * fading,
            "sh_dc": settings.sh_dc * fading,
            "sh": settings.sh_rest * fading,
        }

    def step(self, state: SplatState, seen: Seen, step: int, log_scale_floors: Tensor | None = None) -> None:
        """Makes one update.

        Args:
            state: Parameters and moments, changed in place.
            seen: The view and its gradients.
            step: Number of this update, from 1, for Adam's bias correction.
            log_scale_floors: [N] below which no log-scale may end, or None.
        """
        camera = seen.camera
        update_splats(
            state.params,
            self.moments(state),
            seen.gradients,
            seen.radii,
            seen.viewmat,
            seen.intrinsics,
            camera.width,
            camera.height,
            **self.options(state, camera, step),
            log_scale_floors=log_scale_floors,
            backend=self.backend,
        )

    def moments(self, state: SplatState) -> dict[str, tuple[Tensor, Tensor]]:
        """Returns Adam's moments of each group; what the state lacks is added to it."""
        return {name: state.add_moments(name, state.params[name]) for name in PARAMETER_NAMES}

    def options(self, state: SplatState, camera: Camera, step: int) -> UpdateOptions:
        """Returns what ``update_splats`` and ``train_step`` are to do at a step, from 1, with a camera's gradients."""
        return {
            **camera_options(camera, self.formation),
            "rates": self.rates(step),
            "step": step,
            "degree": state.sh_degree,
            "decode": self.formation.is_linear,
            "sparse": self.settings.sparse,
        }
