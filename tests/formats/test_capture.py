"""Captures: written and read back, data sets of others, and directories that are none."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from splat_engine.formats.cameras import camera_from_frame
from splat_engine.formats.capture import (
    PASSES,
    Capture,
    CaptureInfo,
    View,
    mark_held_out,
    read_capture,
    write_capture,
)
from splat_engine.formats.errors import UserError
from tests.formats.strategies import cameras

IDENTITY = np.eye(4).tolist()
TEXT = st.text(st.characters(blacklist_categories=["Cs"]), max_size=8)
BOX = st.none() | st.tuples(*[st.floats(-1e9, 1e9)] * 3)

infos = st.builds(
    CaptureInfo,
    source=TEXT,
    unit_scale_m=st.floats(1e-6, 1e6),
    view_transform=TEXT,
    color_space=st.sampled_from(["linear", "srgb"]),
    passes=st.lists(st.sampled_from(PASSES), unique=True).map(tuple),
    samples=st.integers(0, 65536),
    engine=TEXT,
    object_names=st.lists(TEXT, max_size=3).map(tuple),
    bounds_min=BOX,
    bounds_max=BOX,
)


@st.composite
def views(draw: st.DrawFn, number: int) -> View:
    """Draws a view with a picture, an EXR, both or neither."""
    return View(
        camera=draw(cameras()),
        split="train" if number == 0 else draw(st.sampled_from(["train", "test"])),
        exr=draw(st.sampled_from([None, f"views/{number:04}.exr"])),
        image=draw(st.sampled_from([None, f"images/{number:04}.png"])),
        frame=draw(st.integers(-10, 10**6)),
        time_s=draw(st.floats(-1e6, 1e6)),
    )


def touch_files(capture: Capture) -> None:
    """Makes empty files for all that a capture names."""
    names = [name for view in capture.views for name in (view.exr, view.image) if name]
    for path in [capture.root / name for name in names] + ([capture.init] if capture.init else []):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


@given(st.data())
def test_what_is_written_is_read_back(tmp_path: Path, data: st.DataObject) -> None:
    """Cameras, splits, files, times and what the capture says of itself."""
    drawn = tuple(data.draw(views(number)) for number in range(data.draw(st.integers(1, 3))))
    init = data.draw(st.sampled_from([None, tmp_path / "init.ply", tmp_path / "points" / "all.ply"]))
    applied = data.draw(st.none() | st.tuples(*[st.tuples(*[st.floats(-1e9, 1e9)] * 4)] * 3))
    written = Capture(tmp_path, drawn, data.draw(infos), init, world_from_colmap=applied)
    touch_files(written)
    path = write_capture(written)
    for place in (tmp_path, path):
        found = read_capture(place)
        assert (found.root, found.info, found.init, found.notes) == (tmp_path, written.info, init, ())
        assert found.world_from_colmap == applied
        assert len(found.views) == len(drawn)
        for before, after in zip(drawn, found.views, strict=True):
            # The pose is normalised anew when it is read: equal to rounding, not to the bit.
            pose = before.camera.world_from_camera
            np.testing.assert_allclose(after.camera.world_from_camera, pose, rtol=1e-14, atol=1e-14)
            assert replace(after, camera=replace(after.camera, world_from_camera=pose)) == before


def test_other_trainers_find_what_they_need(tmp_path: Path, view: View) -> None:
    """The file is a nerfstudio data set: keys, OpenGL axes, relative names, lists of the splits."""
    (tmp_path / "images").mkdir()
    test = replace(view, split="test", image="images/2.png")
    capture = Capture(tmp_path, (view, test), init=tmp_path / "init.ply")
    document = json.loads(write_capture(capture).read_text())
    first = document["frames"][0]
    assert first["file_path"] == "images/1.png" and document["ply_file_path"] == "init.ply"
    assert {"w", "h", "fl_x", "fl_y", "cx", "cy", "transform_matrix"} <= first.keys()
    np.testing.assert_array_equal(first["transform_matrix"], np.diag([1, -1, -1, 1]))
    assert document["train_filenames"] == ["images/1.png"]
    assert document["test_filenames"] == document["val_filenames"] == ["images/2.png"]


@pytest.fixture
def view() -> View:
    """A view of 4 x 3 pixels from the origin, OpenCV axes those of the world."""
    frame = {"w": 4, "h": 3, "fl_x": 2.0, "transform_matrix": np.diag([1.0, -1, -1, 1]).tolist()}
    return View(camera_from_frame(frame, {}, where=""), image="images/1.png")


def test_numbers_that_json_lacks_are_refused_and_nothing_is_written(tmp_path: Path, view: View) -> None:
    """NaN would make a file that other readers refuse."""
    with pytest.raises(ValueError, match="JSON"):
        write_capture(Capture(tmp_path, (replace(view, time_s=math.nan),)))
    assert not list(tmp_path.iterdir())


def png(width: int, height: int) -> bytes:
    """Returns the beginning of a PNG, which says its size."""
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height)


def write_json(path: Path, document: Any) -> None:
    """Writes a file of the test's own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))


def test_nerf_synthetic_folders_are_read_as_one(tmp_path: Path) -> None:
    """Angles instead of focal lengths, names without suffix, sizes from the pictures, two files."""
    for split in ("train", "test"):
        frames = [{"file_path": f"./{split}/r_{i}", "transform_matrix": IDENTITY} for i in range(2)]
        write_json(tmp_path / f"transforms_{split}.json", {"camera_angle_x": 1.0, "frames": frames})
        (tmp_path / split).mkdir()
        for i in range(2):
            (tmp_path / split / f"r_{i}.png").write_bytes(png(40, 30))
    capture = read_capture(tmp_path)
    assert [view.split for view in capture.views] == ["train", "train", "test", "test"]
    assert capture.views[3].image == "./test/r_1.png" and capture.info.color_space == "srgb"
    assert (capture.views[0].camera.width, capture.views[0].camera.height) == (40, 30)
    assert read_capture(tmp_path / "transforms_train.json").views == capture.views[:2]


def test_nerfstudio_lists_name_what_is_held_out(tmp_path: Path) -> None:
    """val_filenames and test_filenames are held out; a BOM in front of the file does no harm."""
    names = ["a.jpg", "b.jpg", "c.jpg"]
    document = {
        "w": 4, "h": 3, "fl_x": 2.0, "frames": [{"file_path": n, "transform_matrix": IDENTITY} for n in names],
        "val_filenames": ["a.jpg"], "test_filenames": ["c.jpg"],
    }  # fmt: skip
    (tmp_path / "transforms.json").write_text("\ufeff" + json.dumps(document), encoding="utf-8")
    for name in names:
        (tmp_path / name).touch()
    assert [view.split for view in read_capture(tmp_path).views] == ["test", "train", "test"]


def test_what_is_not_used_is_noted(tmp_path: Path) -> None:
    """Depth pictures of other data sets are not read, and that is said."""
    frame = {
        "file_path": "a.jpg",
        "depth_file_path": "d.png",
        "w": 4,
        "h": 3,
        "fl_x": 2.0,
        "transform_matrix": IDENTITY,
    }
    write_json(tmp_path / "transforms.json", {"frames": [frame]})
    (tmp_path / "a.jpg").touch()
    (note,) = read_capture(tmp_path).notes
    assert "depth pictures" in note and "transforms.json" in note


def test_masks_are_named_and_must_be_there(tmp_path: Path) -> None:
    """nerfstudio's mask_path comes back from the file and goes into it again; one that is missing is an error."""
    frame = {"file_path": "a.jpg", "w": 4, "h": 3, "fl_x": 2.0, "transform_matrix": IDENTITY}
    frames = [{**frame, "mask_path": "m.png"}, frame]
    write_json(tmp_path / "transforms.json", {"frames": frames})
    for name in ("a.jpg", "m.png"):
        (tmp_path / name).touch()
    capture = read_capture(tmp_path)
    assert [view.mask for view in capture.views] == ["m.png", None] and not capture.notes
    write_capture(capture)
    assert [view.mask for view in read_capture(tmp_path).views] == ["m.png", None]
    (tmp_path / "m.png").unlink()
    with pytest.raises(UserError, match=r"names m\.png, which is not there"):
        read_capture(tmp_path)


def test_the_shared_data_set_is_read(shared_data: Path) -> None:
    """60 training views, 12 held out, 256 x 256, all looking at the origin's neighbourhood from outside."""
    capture = read_capture(shared_data / "dataset" / "suzanne256")
    assert len(capture.of_split("train")) == 60 and len(capture.of_split("test")) == 12
    for view in capture.views:
        assert (view.camera.width, view.camera.height) == (256, 256)
        pixels, depths = view.camera.project(np.zeros((1, 3)))
        assert 3 < depths[0] < 12 and np.abs(pixels - 128).max() < 64
        assert view.image and (capture.root / view.image).is_file()


def minimal(tmp_path: Path) -> dict[str, Any]:
    """Returns a document of one view of ours, whose files exist."""
    (tmp_path / "a.png").write_bytes(png(4, 3))
    ours = {"split": "train", "image": "a.png"}
    frame = {
        "file_path": "a.png",
        "w": 4,
        "h": 3,
        "fl_x": 2.0,
        "transform_matrix": IDENTITY,
        "splatfit": ours,
    }
    return {"frames": [frame], "splatfit": {"version": 1}}


def test_the_minimal_document_is_legal(tmp_path: Path) -> None:
    """What the next tests break is whole to begin with; what is absent has its default."""
    write_json(tmp_path / "transforms.json", minimal(tmp_path))
    capture = read_capture(tmp_path)
    assert capture.info == CaptureInfo() and capture.views[0].image == "a.png"


FAULTS: list[tuple[list[Any], Any, str]] = [
    (["frames"], None, "no list of frames"),
    (["frames"], {}, "no list of frames"),
    (["frames"], ["a.png"], "no list of frames"),
    (["frames"], [], "no training view"),
    (["splatfit"], "yes", "splatfit 'yes'"),
    (["splatfit", "version"], 2, "version 2"),
    (["splatfit", "version"], None, "version None"),
    (["splatfit", "color_space"], "rec2020", "rec2020"),
    (["splatfit", "unit_scale_m"], "1 m", "unit_scale_m '1 m'"),
    (["splatfit", "passes"], "depth", "passes 'depth'"),
    (["splatfit", "passes"], [1], "passes 1"),
    (["splatfit", "bounds_min"], [0, 0], "not three numbers"),
    (["ply_file_path"], "none.ply", "none.ply are missing"),
    (["ply_file_path"], 3, "ply_file_path 3"),
    (["test_filenames"], 3, "test_filenames 3"),
    (["frames", 0, "splatfit"], [], "splatfit []"),
    (["frames", 0, "splatfit", "split"], "val", "split 'val'"),
    (["frames", 0, "splatfit", "split"], "test", "no training view"),
    (["frames", 0, "splatfit", "image"], "gone.png", "gone.png"),
    (["frames", 0, "splatfit", "exr"], "gone.exr", "gone.exr"),
    (["frames", 0, "splatfit", "exr"], 7, "exr 7"),
    (["frames", 0, "splatfit", "near"], "close", "near 'close'"),
    (["frames", 0, "splatfit", "far"], 0, "clip distances"),
    (["frames", 0, "splatfit", "frame"], 1.5, "frame 1.5"),
    (["frames", 0, "transform_matrix"], np.zeros((4, 4)).tolist(), "singular"),
    (["applied_transform"], IDENTITY[:2], "three rows of four numbers"),
    (["applied_transform"], [row[:3] for row in IDENTITY], "three rows of four numbers"),
    (["applied_transform"], [["1", 0, 0, 0], *IDENTITY[1:3]], "applied_transform '1'"),
    (["frames", 0, "w"], 0, "0 x 3"),
]


@pytest.mark.parametrize(("place", "value", "words"), FAULTS)
def test_faults_are_said_with_their_place(tmp_path: Path, place: list[Any], value: Any, words: str) -> None:
    """A key of the wrong type or value: the file, the frame and the key are named."""
    document = minimal(tmp_path)
    table: Any = document
    for key in place[:-1]:
        table = table[key]
    table[place[-1]] = value
    write_json(tmp_path / "transforms.json", document)
    with pytest.raises(UserError) as caught:
        read_capture(tmp_path)
    assert words in caught.value.headline and str(tmp_path) in caught.value.headline and caught.value.hint
    if place[:1] == ["frames"] and len(place) > 2 and "training" not in words:
        assert "Frame 0" in caught.value.headline


@given(st.data())
def test_any_value_anywhere_is_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    """No content of transforms.json gives anything but a capture or a UserError."""
    document = minimal(tmp_path)
    tables = [document, document["frames"][0], document["splatfit"], document["frames"][0]["splatfit"]]
    table = data.draw(st.sampled_from(tables))
    extra = [
        "camera",
        "time_s",
        "samples",
        "object_names",
        "bounds_max",
        "ply_file_path",
        "applied_transform",
        "val_filenames",
        "exr",
    ]
    values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
        max_leaves=5,
    )
    table[data.draw(st.sampled_from([*table, *extra]))] = data.draw(values)
    write_json(tmp_path / "transforms.json", document)
    try:
        assert read_capture(tmp_path).of_split("train")
    except UserError as error:
        assert str(tmp_path) in error.headline


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "not valid JSON"), ("{", "not valid JSON"), ('{"frames": [NaN]}', "NaN"), ("[" * 99999, "nested")],
)  # fmt: skip
def test_text_that_is_no_json_is_refused(tmp_path: Path, text: str, words: str) -> None:
    """Cut off, empty, with NaN, nested beyond reason."""
    (tmp_path / "transforms.json").write_text(text)
    with pytest.raises(UserError, match=words):
        read_capture(tmp_path)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    """Another encoding than UTF-8."""
    (tmp_path / "transforms.json").write_bytes(b"\xff\xfe{\x00")
    with pytest.raises(UserError, match="not valid JSON"):
        read_capture(tmp_path)


def test_places_without_a_capture_are_said(tmp_path: Path) -> None:
    """A missing path and an empty folder."""
    with pytest.raises(UserError, match="There is no capture at"):
        read_capture(tmp_path / "none")
    with pytest.raises(UserError, match=r"holds no transforms\.json"):
        read_capture(tmp_path)


def test_a_frame_without_a_file_is_refused(tmp_path: Path) -> None:
    """A foreign frame that names no picture, or one that is not there."""
    frame = {"w": 4, "h": 3, "fl_x": 2.0, "transform_matrix": IDENTITY}
    write_json(tmp_path / "transforms.json", {"frames": [frame]})
    with pytest.raises(UserError, match="Frame 0 .* no file_path"):
        read_capture(tmp_path)
    write_json(tmp_path / "transforms.json", {"frames": [{**frame, "file_path": "gone"}]})
    with pytest.raises(UserError, match="Frame 0 .* names gone"):
        read_capture(tmp_path)


@given(st.integers(0, 40), st.integers(-1, 12))
def test_every_so_manieth_view_is_held_out(count: int, every: int) -> None:
    """The middle of each group, by the order alone; 0 and below hold none out."""
    frame = {"w": 4, "h": 3, "fl_x": 2.0, "transform_matrix": IDENTITY}
    marked = mark_held_out([View(camera_from_frame(frame, {}, where=""))] * count, every)
    held_out = [number for number, view in enumerate(marked) if view.split == "test"]
    assert len(marked) == count
    assert held_out == (list(range(every // 2, count, every)) if every > 0 else [])
