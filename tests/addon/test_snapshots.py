"""addon.display.snapshots: a snapshot as attributes, read aside."""

from __future__ import annotations

import numpy as np
import pytest

from addon.display import snapshots
from addon.display.snapshots import Reading, most_visible, read_snapshot
from addon.scene import encoding
from splat_engine.formats.errors import UserError
from splat_engine.formats.splat_ply import write_splat_ply
from tests.addon.clouds import cloud


def test_attributes_are_those_of_the_result(tmp_path):
    """What the preview hands to Blender is what the import of the same file would."""
    splats = cloud(200, degree=1)
    write_splat_ply(tmp_path / "snapshot.ply", splats)
    read = read_snapshot(tmp_path / "snapshot.ply")
    expected = encoding.attributes_of(splats)
    assert read.attributes.keys() == expected.keys() and read.count == 200
    assert all(np.array_equal(read.attributes[name], expected[name]) for name in expected)
    assert read.metadata["formation"] == "blender"


def test_bad_splats_do_not_reach_blender(tmp_path):
    """A splat that is not finite, as a diverging fit may have, is left out."""
    splats = cloud(20)
    splats.means[3] = np.nan
    write_splat_ply(tmp_path / "snapshot.ply", splats)
    assert len(read_snapshot(tmp_path / "snapshot.ply").attributes["position"]) == 19


def test_most_visible_are_the_large_opaque_ones():
    """Of many splats those remain that cover most, in their order; a long thin one loses against a wide one."""
    splats = cloud(100)
    splats.log_scales[:], splats.opacity_logits[:] = -5, -2
    splats.log_scales[70] = -1
    splats.log_scales[10, :2] = -2  # a disc
    splats.log_scales[20, 0] = -2  # a needle
    splats.opacity_logits[30] = 6
    kept = most_visible(splats, 3)
    assert np.array_equal(kept.means, splats.means[[10, 30, 70]]) or np.array_equal(
        kept.means, splats.means[[10, 20, 70]]
    )
    assert len(most_visible(splats, 100)) == 100


def test_huge_clouds_lose_directional_colour(tmp_path, monkeypatch):
    """Beyond what Blender takes without a hitch the degree goes down; what is left is unchanged."""
    assert [snapshots.affordable_degree(n) for n in (300_000, 500_000, 1_000_000, 2_000_000)] == [3, 2, 1, 0]
    splats = cloud(50)
    write_splat_ply(tmp_path / "snapshot.ply", splats)
    monkeypatch.setattr(snapshots, "NUMBERS_MAX", 50 * 23)
    read = read_snapshot(tmp_path / "snapshot.ply").attributes
    assert "radiance:sh_2" in read and "radiance:sh_3" not in read
    assert np.array_equal(read["radiance:sh_2"], splats.sh[:, 3])


def test_reading_tells_its_mistake(tmp_path):
    """A file that is not there is told by the reading, and not on the thread."""
    reading = Reading(lambda: read_snapshot(tmp_path / "snapshot.ply"))
    reading.wait()
    assert reading.is_over and reading.snapshot is None
    with pytest.raises(UserError, match="no file"):
        raise reading.error  # type: ignore[misc]
