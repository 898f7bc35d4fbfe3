"""The kernel of ``update_splats``, emulated: equal to the CPU's and to the reference."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from update_scenes import Scene, assert_same_changes, changes

from splat_engine.ops import ScreenGradients
from tests.cuda.emulation.launcher import EmulatedLauncher
from tests.cuda.orders import every_order

both_types = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
both_models = pytest.mark.parametrize("model", ["perspective", "orthographic"])
pytestmark = pytest.mark.usefixtures("emulated")
TOLERANCE = {torch.float32: 2e-4, torch.float64: 1e-10}
"""Of how far a number was moved; in float most digits of a change are lost in the number."""


def gradients_of(scene: Scene, seen: torch.Tensor) -> ScreenGradients:
    """The scene's gradients where splats are seen, and 0 elsewhere."""
    return ScreenGradients(
        *(g * seen.reshape(-1, *[1] * (g.dim() - 1)) for g in scene.gradients if g is not None)
    )


@both_types
@both_models
@pytest.mark.parametrize("coefficients", [1, 4, 9, 16])
def test_equals_the_cpu(dtype: torch.dtype, model: str, coefficients: int) -> None:
    """Every parameter and both moments, culled splats among them."""
    scene = Scene(101, dtype, model, coefficients)
    assert 0 < int((scene.radii[:, 0] > 0).sum()) < 101
    assert_same_changes(scene, scene.update(backend="cuda"), scene.update(), TOLERANCE[dtype])


@both_models
@pytest.mark.parametrize("options", [{}, {"decode": False}, {"antialiased": True, "dilation_px2": 0.1}])
def test_equals_the_reference(model: str, options: dict[str, Any]) -> None:
    """In double, against autograd and the plain torch statement of Adam."""
    scene = Scene(60, model=model, **options)
    assert_same_changes(scene, scene.update(backend="cuda"), scene.update(backend="reference"), 1e-9)


@every_order
@pytest.mark.parametrize("count", [1, 31, 32, 33, 64, 65, 130])
def test_any_number_of_splats(emulated: EmulatedLauncher, count: int) -> None:
    """Less than a warp, a whole block, one more; in every order of threads and blocks, in one launch."""
    scene = Scene(count, torch.float32)
    got = scene.update(backend="cuda")
    assert dict(emulated.launches) == {"update_splats_f32": 1}
    assert_same_changes(scene, got, scene.update(), TOLERANCE[torch.float32])


@pytest.mark.parametrize("missing", ["means2d", "depths", "conics", "opacities", "normals", "colors"])
def test_a_missing_gradient_is_zero(missing: str) -> None:
    """Each of the six may be null."""
    scene = Scene(40)
    gradients = scene.gradients._replace(**{missing: None})
    got, want = scene.update(backend="cuda", gradients=gradients), scene.update(gradients=gradients)
    assert_same_changes(scene, got, want, 1e-10)
    assert any(not torch.equal(a, b) for a, b in zip(got, scene.update(backend="cuda"), strict=True))


@pytest.mark.parametrize(("degree", "coefficients"), [(0, 4), (1, 16), (2, 16)])
def test_coefficients_above_the_degree_have_no_gradient(degree: int, coefficients: int) -> None:
    """They move by their moments alone, as on the CPU."""
    scene = Scene(50, coefficients=coefficients)
    got, want = scene.update(backend="cuda", degree=degree), scene.update(degree=degree)
    assert_same_changes(scene, got, want, 1e-10)


@both_types
@every_order
def test_sparse_leaves_unseen_splats_alone(emulated: EmulatedLauncher, dtype: torch.dtype) -> None:
    """Splats without any gradient on the screen keep every bit, be it a whole warp of them or one among others."""
    scene = Scene(203, dtype)
    seen = torch.rand(203, generator=torch.Generator().manual_seed(8)) < 0.5
    seen[32:64], seen[64:96] = False, True
    gradients = gradients_of(scene, seen)
    one_number = torch.zeros_like(scene.radii)
    one_number[40, 1] = 1.0  # a single number is enough to be seen
    gradients = gradients._replace(means2d=gradients.means2d + one_number)  # type: ignore[operator]
    seen[40] = True
    got = scene.update(backend="cuda", gradients=gradients, sparse=True)
    want = scene.update(gradients=gradients, sparse=True)
    assert_same_changes(scene, got, want, TOLERANCE[dtype])
    assert all(not moved[~seen].any() and moved[seen].any() for moved in changes(scene, got))


@pytest.mark.parametrize("sparse", [False, True])
def test_log_scales_end_above_their_floors(sparse: bool) -> None:
    """As on the CPU, some held and some free, and in a sparse step none of a splat that nobody saw."""
    scene = Scene(75)
    gradients = gradients_of(scene, torch.arange(75) % 3 > 0)
    floors = scene.params["log_scales"].mean(dim=1)
    floors[::5] = -torch.inf
    options: dict[str, Any] = {"gradients": gradients, "sparse": sparse, "log_scale_floors": floors}
    got = scene.update(backend="cuda", **options)
    assert_same_changes(scene, got, scene.update(**options), 1e-10)
    held = got[1] == floors[:, None]
    assert held.any() and not held.all()


def test_extreme_splats() -> None:
    """Splats with numbers that are not finite or vast are culled: they and their neighbours end as on the CPU."""
    scene = Scene(64)
    scene.params["means"][3] = torch.inf
    scene.params["log_scales"][5] = 1000.0
    scene.params["quats_wxyz"][7] = 0.0
    scene.params["opacity_logits"][9] = torch.nan
    scene.params["sh"][11, 4] = torch.nan
    projected, _ = scene.to_screen()
    scene.radii = projected.radii
    got, want = scene.update(backend="cuda"), scene.update()
    for one, two in zip(got, want, strict=True):
        assert torch.equal(torch.isfinite(one), torch.isfinite(two))
        torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-9, equal_nan=True)


def test_no_splats(emulated: EmulatedLauncher) -> None:
    """N = 0 launches nothing."""
    assert all(len(tensor) == 0 for tensor in Scene(0).update(backend="cuda", sparse=True))
    assert not emulated.launches
