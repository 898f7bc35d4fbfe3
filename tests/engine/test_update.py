"""The op ``update_splats``: the backward of ``project`` and ``sh_colors`` and Adam in one, against the three by themselves."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from gradient_check import relative_l2
from splat_scenes import HEIGHT, WIDTH, threads
from update_scenes import RATES, Scene, assert_same_changes, changes

from splat_engine.ops import ScreenGradients, update_splats
from splat_engine.ops.update import GROUPS

both_types = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
both_models = pytest.mark.parametrize("model", ["perspective", "orthographic"])


@both_types
@both_models
@pytest.mark.parametrize("coefficients", [1, 4, 9, 16])
def test_equals_the_three_ops(dtype: torch.dtype, model: str, coefficients: int) -> None:
    """Parameters and moments move as by project's and sh_colors' backward and one adam_step a group."""
    scene = Scene(101, dtype, model, coefficients)
    assert 0 < (scene.radii[:, 0] > 0).sum() < 101
    assert_same_changes(scene, scene.update(), scene.separately(), 1e-11 if dtype == torch.float64 else 2e-4)


@both_models
@pytest.mark.parametrize("options", [{}, {"decode": False}, {"antialiased": True, "dilation_px2": 0.1}])
def test_cpu_equals_reference(model: str, options: dict[str, Any]) -> None:
    """The native op and the plain torch statement move every number by the same amount, to 1e-9."""
    scene = Scene(60, model=model, **options)
    assert_same_changes(scene, scene.update(), scene.update(backend="reference"), 1e-9)


@pytest.mark.parametrize("missing", ["depths", "normals", "colors", "means2d"])
def test_a_missing_gradient_is_zero(missing: str) -> None:
    """None and zeros are the same; so the others arrive without it."""
    scene = Scene(40)
    zeros = scene.gradients._replace(**{missing: torch.zeros_like(getattr(scene.gradients, missing))})
    none = scene.gradients._replace(**{missing: None})
    got, want = scene.update(gradients=none), scene.update(gradients=zeros)
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))
    assert_same_changes(scene, got, scene.update(gradients=none, backend="reference"), 1e-9)
    assert any(not torch.equal(a, b) for a, b in zip(got, scene.update(), strict=True))


def test_it_follows_torch_optim_adam() -> None:
    """Five steps from zero moments leave what torch.optim.Adam leaves, the constant colour at a rate of its own."""
    scene = Scene(30, model="perspective", coefficients=4)
    theirs = {name: value.clone() for name, value in scene.params.items()}
    theirs["sh_dc"], theirs["sh"] = theirs["sh"][:, :1].clone(), theirs["sh"][:, 1:].clone()
    leaves = {name: value.requires_grad_() for name, value in theirs.items()}
    optimizer = torch.optim.Adam(
        [{"params": [leaves[name]], "lr": RATES[name]} for name in leaves], eps=1e-15
    )
    ours = Scene(30, coefficients=4)
    moments = {name: (torch.zeros_like(v), torch.zeros_like(v)) for name, v in ours.params.items()}
    for step in range(1, 6):
        whole = {
            **{n: leaves[n] for n in GROUPS[:4]},
            "sh": torch.cat((leaves["sh_dc"], leaves["sh"]), dim=1),
        }
        scene.params = whole
        projected, colors = scene.to_screen()
        outputs = [
            projected.means2d,
            projected.depths,
            projected.conics,
            projected.opacities,
            projected.normals,
            colors,
        ]
        optimizer.zero_grad()
        torch.autograd.backward(outputs, list(scene.gradients))
        update_splats(
            ours.params, moments, scene.gradients, projected.radii, scene.viewmat, scene.intrinsics, WIDTH, HEIGHT,
            rates=RATES, step=step, degree=1, **scene.options,
        )  # fmt: skip
        optimizer.step()
    for name in GROUPS[:4]:
        assert relative_l2(ours.params[name], leaves[name]) < 1e-9
    assert relative_l2(ours.params["sh"], torch.cat((leaves["sh_dc"], leaves["sh"]), dim=1)) < 1e-9


def test_coefficients_above_the_degree_have_no_gradient() -> None:
    """With degree 1 of 16 coefficients the upper ones move by their moments alone."""
    scene = Scene(50)
    got = scene.update(degree=1)
    assert_same_changes(scene, got, scene.update(degree=1, backend="reference"), 1e-9)
    still = Scene(50)
    still.moments["sh"] = (torch.zeros_like(still.params["sh"]), still.moments["sh"][1])
    moved = still.update(degree=1)[4] - still.params["sh"]
    assert not moved[:, 4:].any() and moved[:, :4].any()


@both_types
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_sparse_leaves_unseen_splats_alone(dtype: torch.dtype, backend: str) -> None:
    """Splats without any gradient on the screen keep every bit; the others move as in a dense step."""
    scene = Scene(203, dtype)
    seen = torch.rand(203, generator=torch.Generator().manual_seed(8)) < 0.5
    seen[32:64], seen[64:96] = False, True  # whole registers of either kind
    gradients = ScreenGradients(
        *(g * seen.reshape(-1, *[1] * (g.dim() - 1)) for g in scene.gradients if g is not None)
    )
    one_number = torch.zeros_like(scene.radii)
    one_number[40, 1] = 1.0  # a single number is enough to be seen
    gradients = gradients._replace(means2d=gradients.means2d + one_number)  # type: ignore[operator]
    seen[40] = True
    sparse = scene.update(gradients=gradients, sparse=True, backend=backend)
    dense = scene.update(gradients=gradients, backend=backend)
    for moved, expected in zip(changes(scene, sparse), changes(scene, dense), strict=True):
        assert not moved[~seen].any() and expected[~seen].any()
        tolerance = 1e-11 if dtype == torch.float64 else 2e-4
        assert relative_l2(moved[seen], expected[seen]) < tolerance and moved[seen].any()


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("sparse", [False, True])
def test_log_scales_end_above_their_floors(backend: str, sparse: bool) -> None:
    """Log-scales below a splat's floor end on it, others stay; in a sparse step splats that nobody saw are left alone."""
    scene = Scene(75)
    seen = torch.arange(75) % 3 > 0
    gradients = ScreenGradients(
        *(g * seen.reshape(-1, *[1] * (g.dim() - 1)) for g in scene.gradients if g is not None)
    )
    free = scene.update(gradients=gradients, sparse=sparse, backend=backend)
    floors = scene.params["log_scales"].mean(dim=1)
    floors[::5] = -torch.inf
    held = scene.update(gradients=gradients, sparse=sparse, log_scale_floors=floors, backend=backend)
    expected = torch.maximum(free[1], floors[:, None])
    if sparse:
        expected[~seen] = free[1][~seen]
    assert (expected != free[1]).any() and (expected == free[1]).any()
    assert torch.equal(held[1], expected)
    assert all(torch.equal(a, b) for i, (a, b) in enumerate(zip(held, free, strict=True)) if i != 1)


def test_culled_splats_move_by_their_moments_alone() -> None:
    """A culled splat has no gradient of its shape, whatever stands in the arrays of the screen."""
    scene = Scene(60)
    culled = scene.radii[:, 0] == 0
    gradients = scene.gradients._replace(colors=None)
    silenced = ScreenGradients(
        *(None if g is None else g * ~culled.reshape(-1, *[1] * (g.dim() - 1)) for g in gradients)
    )
    got, want = scene.update(gradients=gradients), scene.update(gradients=silenced)
    assert culled.any() and all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


def test_threads_do_not_change_a_bit() -> None:
    """1, 2 and 3 threads leave the same splats."""
    scene = Scene(5003, torch.float32)
    results = []
    for count in (1, 2, 3):
        with threads(count):
            results.append(scene.update())
    assert all(torch.equal(a, b) for other in results[1:] for a, b in zip(results[0], other, strict=True))


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("count", [0, 1])
def test_few_splats(backend: str, count: int) -> None:
    """N = 0 is legal; one splat is updated."""
    scene = Scene(count)
    updated = scene.update(backend=backend, sparse=True)
    assert len(updated) == 15 and all(len(tensor) == count for tensor in updated)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"degree": 4}, "degree"),
        ({"step": 0}, "step"),
        ({"radii": torch.zeros(9, 3)}, "radii"),
        ({"gradients": ScreenGradients(means2d=torch.zeros(9, 3))}, "gradients.means2d"),
        ({"camera_model": "fisheye"}, "camera_model"),
        ({"log_scale_floors": torch.zeros(8)}, "log_scale_floors"),
        ({"backend": "gpu"}, "backend"),
    ],
)
def test_wrong_arguments(change: dict[str, Any], message: str) -> None:
    """Each wrong shape, number or name is refused by name, before anything is changed."""
    with pytest.raises(ValueError, match=message):
        Scene(9, torch.float32).update(**change)


def test_parameters_must_be_contiguous() -> None:
    """A strided parameter could not be changed in place."""
    scene = Scene(9)
    scene.params["means"] = scene.params["means"].T.contiguous().T
    update = {name: value for name, value in scene.params.items()}
    with pytest.raises(ValueError, match="means: expected contiguous"):
        update_splats(
            update, scene.moments, scene.gradients, scene.radii, scene.viewmat, scene.intrinsics, WIDTH, HEIGHT,
            rates=RATES, step=1, degree=3,
        )  # fmt: skip
