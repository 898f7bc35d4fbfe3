"""What is read once serves again: the same views, the same objects, no file opened anew, memory bounded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from splat_engine.fit import data, objects
from splat_engine.fit.ahead import look_ahead
from splat_engine.fit.data import CaptureImages
from splat_engine.fit.exr import read_layers
from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.objects import OBJECT_LAYERS, object_indices
from splat_engine.fit.shelf import LayerShelf, shelf_for
from splat_engine.fit.start import Start, start_splats
from splat_engine.formats.capture import Capture, write_capture
from splat_engine.formats.settings import RunSettings
from tests.engine.test_objects import write_spheres


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    capture = write_spheres(tmp_path_factory.mktemp("capture"))
    write_capture(capture)
    return capture


def settings() -> RunSettings:
    plain = RunSettings()
    return replace(plain, start=replace(plain.start, start_splats=200))


def started(capture: Capture, on: LayerShelf | None) -> Start:
    return start_splats(capture, settings(), np.random.default_rng(0), pytest.fail, on)


def no_reading(*arguments: Any, **more: Any) -> Any:
    raise AssertionError(f"read again: {arguments}")


def test_a_start_is_the_same_with_a_shelf(capture: Capture) -> None:
    """Bit for bit, whether normals and indices are read with it or not."""
    plain, kept = started(capture, None).splats, started(capture, shelf_for(capture, settings())).splats
    assert len(plain) > 100
    assert np.array_equal(plain.means, kept.means) and np.array_equal(plain.sh, kept.sh)


def test_views_and_objects_are_the_same_and_no_file_is_read_again(
    capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the dense start neither the training views nor the look for objects opens a file."""
    on = shelf_for(capture, settings())
    splats, formation = started(capture, on).splats, ImageFormation("blender")
    plain = CaptureImages(capture, "train", formation)
    expected = [plain[number] for number in range(len(plain))]
    indices = object_indices(splats, capture)
    assert (indices > 0).any()
    images = CaptureImages(capture, "train", formation, shelf=on)
    monkeypatch.setattr(data, "read_layers", no_reading)
    monkeypatch.setattr(objects, "read_passes", no_reading)
    for number, view in enumerate(expected):
        assert torch.equal(view.color, images[number].color)
        assert torch.equal(view.alpha, images[number].alpha)
    again = object_indices(splats, capture, known=lambda path: on.look(path, OBJECT_LAYERS))
    assert np.array_equal(indices, again)


def test_what_was_taken_is_gone_but_for_what_tells_objects(capture: Capture) -> None:
    """And its room is there for other files; what was never there is not found."""
    paths = [capture.root / str(view.exr) for view in capture.of_split("train")[:2]]
    size = (capture.views[0].camera.width, capture.views[0].camera.height)
    layers = [read_layers(path, ("Combined", "Depth"), size, ("Object Index",)) for path in paths]
    room = sum(layer.nbytes for layer in layers[0].values())
    on = LayerShelf(("Combined", *OBJECT_LAYERS), room)
    on.keep(paths[0], layers[0])
    on.keep(paths[1], layers[1])
    assert on.look(paths[1], ("Depth",)) is None
    assert on.look(paths[0], ("Combined", "Normal")) is None
    taken = on.take(paths[0], ("Combined",))
    assert taken is not None and np.array_equal(taken["Combined"], layers[0]["Combined"])
    assert on.take(paths[0], ("Combined",)) is None
    assert on.look(paths[0], OBJECT_LAYERS) is not None
    on.keep(paths[1], {"Combined": layers[1]["Combined"]})
    assert on.look(paths[1], ("Combined",)) is not None


def test_a_full_shelf_costs_nothing_but_another_reading(capture: Capture) -> None:
    """Views and objects are those of an empty one."""
    on = LayerShelf(shelf_for(capture, settings()).names, 0)
    splats = started(capture, on).splats
    images = CaptureImages(capture, "train", ImageFormation("blender"), shelf=on)
    plain = CaptureImages(capture, "train", ImageFormation("blender"))
    assert torch.equal(images[0].color, plain[0].color)
    again = object_indices(splats, capture, known=lambda path: on.look(path, OBJECT_LAYERS))
    assert np.array_equal(again, object_indices(splats, capture))


def test_only_what_will_be_wanted_is_kept(capture: Capture) -> None:
    """Colour for fits to it, normals where a loss weighs them, the index where objects are named."""
    plain = settings()
    assert set(shelf_for(capture, plain).names) == {"Combined", "Depth", "Object Index"}
    weighed = replace(plain, loss=replace(plain.loss, normal_weight=0.1))
    assert "Normal" in shelf_for(capture, weighed).names
    pictures = replace(plain, fit=replace(plain.fit, target="display"))
    assert "Combined" not in shelf_for(capture, pictures).names
    nameless = replace(capture, info=replace(capture.info, object_names=()))
    assert "Object Index" not in shelf_for(nameless, plain).names


def test_layers_read_beside_torch_reach_the_fit(capture: Capture) -> None:
    """The shelf travels with the first splats."""
    made = look_ahead(capture.root, settings(), lambda: True)
    path = capture.root / str(capture.of_split("train")[0].exr)
    assert made.shelf.look(path, ("Combined", *OBJECT_LAYERS)) is not None
