"""addon.scene.encoding: splats as Blender's attributes and back, without Blender."""

from __future__ import annotations

import numpy as np
import pytest

from addon.scene import encoding
from splat_engine.formats.splats import Splats
from tests.addon.clouds import cloud


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_round_trip(degree):
    """Means and SH come back bit by bit; scales and opacities within float32; rotations up to sign and norm."""
    splats = cloud(200, degree)
    back = encoding.splats_of(encoding.attributes_of(splats))
    np.testing.assert_array_equal(back.means, splats.means)
    np.testing.assert_array_equal(back.sh, splats.sh)
    np.testing.assert_allclose(back.log_scales, splats.log_scales, atol=1e-6)
    np.testing.assert_allclose(back.opacity_logits, splats.opacity_logits, atol=1e-5)
    unit = splats.quats_wxyz / np.linalg.norm(splats.quats_wxyz, axis=1, keepdims=True)
    np.testing.assert_allclose(np.abs((back.quats_wxyz * unit).sum(1)), 1, atol=1e-6)


def test_attributes_are_what_blender_reads():
    """Scale is linear, rotation normalised, the base raw DC and activated opacity, sh_k one RGB each."""
    splats = Splats(
        means=[[1, 2, 3]],
        log_scales=np.log([[0.1, 0.2, 0.3]]),
        quats_wxyz=[[0, 0, 2, 0]],
        opacity_logits=[np.log(3.0)],
        sh=np.arange(12).reshape(1, 4, 3),
    )
    attributes = encoding.attributes_of(splats)
    np.testing.assert_allclose(attributes["scale"], [[0.1, 0.2, 0.3]], rtol=1e-6)
    np.testing.assert_array_equal(attributes["rotation"], [[0, 0, 1, 0]])
    np.testing.assert_allclose(attributes["radiance:base"], [[0, 1, 2, 0.75]], rtol=1e-6)
    np.testing.assert_array_equal(attributes["radiance:sh_0"], [[3, 4, 5]])
    np.testing.assert_array_equal(attributes["radiance:sh_2"], [[9, 10, 11]])
    assert "radiance:sh_3" not in attributes
    assert all(a.dtype == np.float32 and a.flags.c_contiguous for a in attributes.values())


def test_saturated_values_stay_finite():
    """Logits beyond float32's sight and opacities of exactly 0 and 1 come back as finite logits."""
    splats = cloud(4, 0)
    splats.opacity_logits[:] = [200, -200, 20, -20]
    attributes = encoding.attributes_of(splats)
    attributes["radiance:base"][0, 3] = 1
    attributes["scale"][1] = 0
    back = encoding.splats_of(attributes)
    assert back.finite().all()
    assert back.opacity_logits[0] > 16 and back.opacity_logits[1] < -80
    assert back.opacity_logits[3] == pytest.approx(-20, abs=1e-3)


def test_undrawable_splats_are_left_out_and_counted():
    """NaN, infinity, a zero quaternion and a size beyond float32 go; the order of the others stays."""
    splats = cloud(6)
    splats.means[0, 1] = np.nan
    splats.log_scales[1, 0] = 100
    splats.quats_wxyz[2] = 0
    splats.sh[4, 3, 1] = np.inf
    kept, dropped = encoding.drop_undrawable(splats)
    assert dropped == 4
    np.testing.assert_array_equal(kept.means, splats.means[[3, 5]])


def test_missing_bands_are_zero():
    """A cloud with only sh_7 (as Blender's own tools may leave it) is of degree 2, other bands zero."""
    attributes = encoding.attributes_of(cloud(3, 0))
    attributes["radiance:sh_7"] = np.ones((3, 3), np.float32)
    back = encoding.splats_of(attributes)
    assert back.sh.shape == (3, 9, 3)
    assert (back.sh[:, 8] == 1).all() and (back.sh[:, 1:8] == 0).all()
