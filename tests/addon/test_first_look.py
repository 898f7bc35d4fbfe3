"""addon.display.first_look: a capture's points as flat splats."""

from __future__ import annotations

import numpy as np
import pytest

from addon.display.first_look import discs, read_first_look, spacing_of
from addon.scene import encoding, transforms
from splat_engine.formats.errors import UserError
from splat_engine.formats.point_ply import Points, write_point_ply


def plane(side: int = 60, spacing: float = 0.1) -> Points:
    """A square grid of points on a plane, upward, of linear colour 0.2."""
    grid = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2) * spacing
    positions = np.c_[grid, np.zeros(len(grid))].astype(np.float32)
    normals = np.tile(np.float32([0, 0, 1]), (len(grid), 1))
    return Points(positions, np.full_like(positions, 0.2), normals)


@pytest.mark.parametrize("spacing", [0.001, 0.1, 30.0])
def test_spacing_is_that_of_the_grid(spacing):
    """The distance of neighbours is found within a third, at any size of the scene."""
    assert spacing_of(plane(spacing=spacing).positions) == pytest.approx(spacing, rel=0.33)


def test_discs_lie_on_the_surface_in_its_colour():
    """Each is thin along the normal, wide along the surface, and of the point's colour, decoded."""
    points = plane()
    normal = np.float32([0.6, 0, -0.8])
    made = discs(Points(points.positions, points.colors, np.tile(normal, (len(points), 1))))
    splats = encoding.splats_of(made)
    thin = transforms.rotations_of(splats.quats_wxyz)[:, :, np.argmin(made["scale"][0])]
    assert np.allclose(np.abs(thin @ normal), 1, atol=1e-5)
    assert 0.03 < made["scale"][0].max() < 0.1 and made["scale"][0].min() < 0.02
    encoded = 0.5 + 0.28209479 * made["radiance:base"][:, :3]
    assert np.allclose(encoded, 0.4845, atol=1e-3)  # sRGB of 0.2


def test_points_without_a_normal_are_balls_and_upside_down_is_a_turn():
    """A zero normal gives a ball; one straight down gives a finite rotation."""
    points = plane(side=3)
    points.normals[0], points.normals[1] = 0, (0, 0, -1)
    made = discs(points)
    assert len(set(made["scale"][0])) == 1 and np.allclose(np.linalg.norm(made["rotation"], axis=1), 1)


def test_few_points_and_none(tmp_path):
    """One point, and points all at one place, can be shown; none is told."""
    for positions in (np.zeros((1, 3), np.float32), np.zeros((5, 3), np.float32)):
        assert np.isfinite(discs(Points(positions, positions, positions))["scale"]).all()
    empty = np.zeros((0, 3), np.float32)
    write_point_ply(tmp_path / "init.ply", Points(empty, empty, empty))
    with pytest.raises(UserError, match="no points"):
        read_first_look(tmp_path)


def test_thinned_evenly(tmp_path):
    """Where fewer can be shown, the whole is thinned, not cut off."""
    write_point_ply(tmp_path / "init.ply", plane())
    made = read_first_look(tmp_path, most=100)
    assert made.count == 100 and np.ptp(made.attributes["position"][:, 1]) > 5.5
