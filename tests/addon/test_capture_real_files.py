"""Real files are captured headless and unattended, with sane bounds and the subject in every view."""

from __future__ import annotations

from pathlib import Path

import bpy
import numpy as np
import pytest

from addon.capture.capture import capture_scene
from splat_engine.formats.capture import read_capture
from splat_engine.formats.exr import read_passes
from splat_engine.formats.point_ply import read_point_ply
from tests.addon.capture_scenes import settings
from tests.addon.rna_dump import differences, dump_scene

BOUNDS = {
    "particle_hair": ((-5.0, -5.1, -0.2), (5.0, 8.5, 2.4)),
    "geometry_nodes_tree_45k_instances": ((-47.5, -52.4, -0.7), (264.3, 96.6, 39.1)),
    "animated_parented_particles": ((-8.0, -8.0, 0.0), (8.0, 8.0, 2.4)),
    "bowling_linked/game_bowling": ((-1.9, -8.0, -0.1), (1.9, 12.0, 0.8)),
    "forest_border": ((-20.9, -19.2, -3.8), (22.9, 29.9, 11.6)),
    "light_volumetric": ((-8.1, -14.6, 0.9), (8.1, 17.4, 7.1)),
    "product_stage": ((-27.6, -27.4, 0.0), (20.1, 34.7, 23.1)),
    "mesh_convertibles": ((-0.9, -0.2, 0.4), (0.9, 0.2, 2.0)),
    "cameras_in_linked_instances": ((-5.1, -4.0, -9.0), (7.0, 13.1, 2.9)),
}
"""Box of what renders, to one decimal, checked by eye against renders of each file."""
SCENES = {"bowling_linked/game_bowling": "Game"}
"""This file opens with a menu in front: its other scene has the game."""


@pytest.mark.parametrize("name", BOUNDS)
def test_real_file(name: str, tmp_path: Path, shared_data: Path) -> None:
    """Four views, start points within the bounds, the target in the middle of each view, and no trace in the scene."""
    bpy.ops.wm.open_mainfile(filepath=str(shared_data / "blend" / f"{name}.blend"))
    scene = bpy.data.scenes[SCENES[name]] if name in SCENES else bpy.context.scene
    scene.view_layers[0].update()  # Blender evaluates only the scene that is shown
    before = dump_scene(scene)
    capture_scene(scene, settings(resolution=64, points=500), tmp_path)
    assert differences(before, dump_scene(scene)) == []
    got = read_capture(tmp_path)
    low, high = BOUNDS[name]
    np.testing.assert_allclose(got.info.bounds_min, low, atol=0.1)
    np.testing.assert_allclose(got.info.bounds_max, high, atol=0.1)
    assert len(got.views) == 4
    extents = []
    for view in got.views:
        alpha = read_passes(tmp_path / str(view.exr), ("color",))["color"][..., 3]
        rows, columns = np.nonzero(alpha > 0.5)
        assert len(rows) > 40
        extents.append(max(np.ptp(rows), np.ptp(columns)) / 64)
        assert alpha[[0, -1]].max() == alpha[:, [0, -1]].max() == 0  # nothing touches the edge
    assert min(extents) > 0.2 and max(extents) > 0.6  # a bowling alley is seen from its end, too
    points = read_point_ply(got.init)
    assert len(points) > 100
    margin = 0.01 * np.ptp([low, high], axis=0).max() + 0.1
    assert (points.positions > np.array(low) - margin).all() and (
        points.positions < np.array(high) + margin
    ).all()
