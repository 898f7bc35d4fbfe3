"""One step of the optimisation: compare a view, go back to the splats, update them.

Where only pictures are compared, the CPU does all of it in one native call; the losses of depth and normals are torch's,
so a step with them is taken in parts. The two ways are equal bit for bit (tests/engine/test_train_step.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.gradients import compare_view
from splat_engine.fit.losses import photometric_options
from splat_engine.fit.model import SplatState
from splat_engine.fit.optimizer import Adam, Seen
from splat_engine.fit.views import ViewTensors
from splat_engine.formats.settings import LossSettings
from splat_engine.ops import train_step


class Taken(NamedTuple):
    """What a step tells.

    Attributes:
        loss: What ``check_loss`` made of the view's loss before the update.
        squared: Mean squared difference of the encoded pictures, a scalar.
        means2d: [N, 2] gradient of the loss by the centres on the screen, per px; or the sums over pixels of its absolute
            values, where those were asked for.
        radii: [N, 2] px, 0 where the splat was culled.
    """

    loss: float | None
    squared: Tensor
    means2d: Tensor
    radii: Tensor


def take_step(
    state: SplatState,
    view: ViewTensors,
    background: Tensor,
    optimizer: Adam,
    formation: ImageFormation,
    settings: LossSettings,
    step: int,
    *,
    extent: float,
    geometry_share: float,
    log_scale_floors: Tensor | None,
    absolute: bool = False,
    check_loss: Callable[[Tensor], float | None],
) -> Taken:
    """Compares the splats with a view and updates them.

    Args:
        state: The splats, changed in place.
        view: Camera and target.
        background: [3] in the blending space.
        optimizer: Gives the rates and the backend.
        formation: How the splats are drawn; the optimizer's, but for the order.
        settings: The weights.
        step: Number of the step, from 1.
        extent: The scene's, scene units.
        geometry_share: Factor on the depth and normal losses, 0 to 1.
        log_scale_floors: [N] below which no log-scale may end, or None.
        absolute: Tell the absolute gradients by the centres.
        check_loss: Told of the loss, a scalar; what it returns is returned. If it raises because the loss is not finite,
            nothing was updated.
    """
    if optimizer.backend == "cpu" and settings.depth_weight <= 0 and settings.normal_weight <= 0:
        whole = train_step(
            state.params,
            optimizer.moments(state),
            view.viewmat,
            view.intrinsics,
            view.color,
            view.alpha,
            background,
            **optimizer.options(state, view.camera, step),
            **photometric_options(view, formation, settings),
            by_ray=formation.by_ray,
            log_scale_floors=log_scale_floors,
            absolute=absolute,
        )
        pull = whole.means2d if whole.absolute is None else whole.absolute
        return Taken(check_loss(whole.loss), whole.squared, pull, whole.radii)
    compared = compare_view(
        state,
        view,
        background,
        formation,
        settings,
        extent=extent,
        geometry_share=geometry_share,
        backend=optimizer.backend,
        absolute=absolute,
    )
    loss, gradients = check_loss(compared.loss), compared.gradients
    assert gradients.means2d is not None
    seen = Seen(gradients, compared.radii, view.viewmat, view.intrinsics, view.camera)
    optimizer.step(state, seen, step, log_scale_floors)
    pull = gradients.means2d if compared.absolute is None else compared.absolute
    return Taken(loss, compared.squared, pull, compared.radii)
