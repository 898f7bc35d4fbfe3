"""The capture: a directory of training views that any nerfstudio-compatible trainer can read too.

::

    transforms.json     cameras; our own keys under "splatfit"
    views/0001.exr      premultiplied scene-linear RGBA, planar depth, world normal and
                        position, object index: one multilayer file a view
    images/0001.png     the same view with the scene's look
    init.ply            coloured points with normals

This module knows the file's words; pixels are read by ``splat_engine.fit.data`` and written by
``addon.capture``. Data sets by others (nerfstudio, NeRF-synthetic) are read by the same function.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from splat_engine.formats.cameras import Camera, camera_from_frame
from splat_engine.formats.errors import FormatError, UserError
from splat_engine.formats.files import read_json, write_json

CAPTURE_VERSION = 1
TRANSFORMS_NAME = "transforms.json"
INIT_NAME = "init.ply"
PASSES = ("depth", "normal", "position", "object_index")

Split = Literal["train", "test"]


@dataclass(frozen=True)
class View:
    """One view of a capture.

    Attributes:
        camera: Its camera.
        split: ``"test"`` views are held out: they never steer a fit.
        exr: Path of the multilayer EXR relative to the capture, or None.
        image: Path of the 8-bit picture relative to the capture, or None.
        frame: The scene's frame the view was rendered at.
        time_s: The same in seconds.
    """

    camera: Camera
    split: Split = "train"
    exr: str | None = None
    image: str | None = None
    frame: int = 0
    time_s: float = 0.0


@dataclass(frozen=True)
class CaptureInfo:
    """What a capture says of itself, under the key "splatfit".

    Attributes:
        source: Path of the .blend, or "".
        unit_scale_m: Metres a scene unit.
        view_transform: Blender's view transform and look of the PNGs, such as "AgX".
        color_space: "linear" if the EXR files are the truth, "srgb" if the pictures are.
        passes: Which of PASSES the EXR files hold.
        samples: Render samples a training view.
        engine: Render engine, such as "CYCLES".
        object_names: Names behind the object index pass; index i + 1 is entry i.
        bounds_min, bounds_max: [3] box around the target, scene units.
    """

    source: str = ""
    unit_scale_m: float = 1.0
    view_transform: str = ""
    color_space: Literal["linear", "srgb"] = "linear"
    passes: tuple[str, ...] = ()
    samples: int = 0
    engine: str = ""
    object_names: tuple[str, ...] = ()
    bounds_min: tuple[float, ...] | None = None
    bounds_max: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Capture:
    """All views of a data set.

    Attributes:
        root: The directory.
        views: Training and test views, in the file's order.
        info: What the capture says of itself.
        init: Absolute path of the start points, or None.
        notes: What was read with reservations (a missing picture's view dropped ...).
    """

    root: Path
    views: tuple[View, ...]
    info: CaptureInfo = field(default_factory=CaptureInfo)
    init: Path | None = None
    notes: tuple[str, ...] = ()

    def of_split(self, split: Split) -> tuple[View, ...]:
        """Returns the views of a split."""
        return tuple(view for view in self.views if view.split == split)


def write_capture(capture: Capture) -> Path:
    """Writes transforms.json, whole or not at all.

    Returns:
        The file's path.

    Raises:
        UserError: The directory cannot be written.
    """
    info = capture.info
    document: dict[str, Any] = {
        "camera_model": "PINHOLE",
        "frames": [_frame_of(view) for view in capture.views],
        "train_filenames": [_name_of(view) for view in capture.of_split("train")],
        "val_filenames": [_name_of(view) for view in capture.of_split("test")],
        "test_filenames": [_name_of(view) for view in capture.of_split("test")],
        "splatfit": {
            "version": CAPTURE_VERSION,
            "source": info.source,
            "unit_scale_m": info.unit_scale_m,
            "view_transform": info.view_transform,
            "color_space": info.color_space,
            "passes": list(info.passes),
            "samples": info.samples,
            "engine": info.engine,
            "object_names": list(info.object_names),
            "bounds_min": info.bounds_min and list(info.bounds_min),
            "bounds_max": info.bounds_max and list(info.bounds_max),
        },
    }
    if capture.init is not None:
        document["ply_file_path"] = capture.init.relative_to(capture.root).as_posix()
    path = capture.root / TRANSFORMS_NAME
    write_json(path, document)
    return path


def _name_of(view: View) -> str:
    return view.image or view.exr or ""


def _frame_of(view: View) -> dict[str, Any]:
    ours = {
        "split": view.split,
        "exr": view.exr,
        "image": view.image,
        "frame": view.frame,
        "time_s": view.time_s,
        "camera": view.camera.name,
        "near": view.camera.near,
        "far": view.camera.far,
    }
    return {"file_path": _name_of(view), **view.camera.to_frame(), "splatfit": ours}


def read_capture(path: str | Path) -> Capture:
    """Reads a capture, or a nerfstudio or NeRF-synthetic data set.

    NeRF-synthetic's transforms_train.json and transforms_test.json beside each other are read as one.
    Frames whose file is missing are an error, not a silence.

    Args:
        path: The directory, or its transforms.json.

    Returns:
        The capture; its views' paths are checked to exist.

    Raises:
        UserError: Nothing is there, no view is in it, a file is missing or says nonsense.
    """
    path = Path(path)
    root, files = _transform_files(path)
    views: list[View] = []
    info, init = CaptureInfo(color_space="srgb"), None
    for file, split in files:
        document = read_json(file, "capture")
        if not isinstance(document, dict) or not isinstance(document.get("frames"), list):
            raise FormatError(f"{file} has no list of frames.", "Is it a transforms.json?")
        if isinstance(document.get("splatfit"), dict):
            info = _info_of(document["splatfit"], file)
        views += _views_of(document, file, root, split)
        if document.get("ply_file_path"):
            init = root / str(document["ply_file_path"])
    if not any(view.split == "train" for view in views):
        raise UserError(f"{path} holds no training view.", "Capture at least one view that is not held out.")
    if init is not None and not init.is_file():
        raise UserError(
            f"The start points {init} are missing.", "Capture again, or remove ply_file_path from the file."
        )
    return Capture(root=root, views=tuple(views), info=info, init=init)


def _transform_files(path: Path) -> tuple[Path, list[tuple[Path, Split | None]]]:
    if path.is_file():
        return path.parent, [(path, None)]
    if not path.is_dir():
        raise UserError(f"There is no capture at {path}.", "Check the path, or capture the scene first.")
    if (path / TRANSFORMS_NAME).is_file():
        return path, [(path / TRANSFORMS_NAME, None)]
    train, test = path / "transforms_train.json", path / "transforms_test.json"
    if train.is_file():
        files: list[tuple[Path, Split | None]] = [(train, "train")]
        return path, files + ([(test, "test")] if test.is_file() else [])
    raise UserError(
        f"{path} holds no {TRANSFORMS_NAME}.", "Choose the capture's own folder, or capture the scene first."
    )


def _info_of(ours: dict[str, Any], file: Path) -> CaptureInfo:
    version = ours.get("version")
    if version != CAPTURE_VERSION:
        raise FormatError(
            f"{file} is a capture of version {version}; this Splatfit reads version {CAPTURE_VERSION}.",
            "Capture the scene again, or use the Splatfit that wrote it.",
        )
    known = {name: ours[name] for name in CaptureInfo.__dataclass_fields__ if name in ours}
    for name in ("passes", "object_names", "bounds_min", "bounds_max"):
        if isinstance(known.get(name), list):
            known[name] = tuple(known[name])
    return CaptureInfo(**known)


def _views_of(document: dict[str, Any], file: Path, root: Path, split: Split | None) -> list[View]:
    held_out = set(document.get("test_filenames", [])) | set(document.get("val_filenames", []))
    views = []
    for number, frame in enumerate(document["frames"]):
        where = f"Frame {number} of {file}"
        ours = frame.get("splatfit", {})
        exr, image = _files_of(frame, ours, root, where)
        size = _png_size(root / image) if image else None
        camera = camera_from_frame(frame, document, where=where, image_size=size)
        camera = replace(
            camera,
            name=str(ours.get("camera") or camera.name),
            near=float(ours.get("near", camera.near)),
            far=float(ours.get("far", camera.far)),
        )
        own_split: Split = (
            ours.get("split") or split or ("test" if frame.get("file_path") in held_out else "train")
        )
        time_s = float(ours.get("time_s", 0.0))
        views.append(View(camera, own_split, exr, image, int(ours.get("frame", 0)), time_s))
    return views


def _files_of(
    frame: dict[str, Any], ours: dict[str, Any], root: Path, where: str
) -> tuple[str | None, str | None]:
    exr: str | None = ours.get("exr")
    image: str | None = ours.get("image")
    if not ours:
        name = str(frame.get("file_path", ""))
        if not name:
            raise FormatError(f"{where} has no file_path.", "Write the data set anew.")
        image = _with_suffix(name, root)
    for named in (exr, image):
        if named is not None and not (root / named).is_file():
            raise UserError(
                f"{where} names {named}, which is not there.",
                "Finish or repeat the capture, or drop the view from the file.",
            )
    return exr, image


def _with_suffix(name: str, root: Path) -> str:
    """NeRF-synthetic leaves the suffix out."""
    for suffix in ("", ".png", ".jpg", ".jpeg"):
        if (root / (name + suffix)).is_file():
            return name + suffix
    return name


def _png_size(path: Path) -> tuple[int, int] | None:
    """Returns (width, height) from a PNG's header, None for other files."""
    with path.open("rb") as stream:
        head = stream.read(24)
    if head[:8] != b"\x89PNG\r\n\x1a\n":
        return None
    width, height = struct.unpack(">II", head[16:24])
    return width, height


def mark_held_out(views: Sequence[View], every: int) -> tuple[View, ...]:
    """Returns the views with every ``every``-th held out for testing, from the middle of each group.

    Args:
        views: In any order; the choice depends on the order alone.
        every: 0 holds none out.
    """
    if every <= 0:
        return tuple(replace(view, split="train") for view in views)
    return tuple(
        replace(view, split="test" if number % every == every // 2 else "train")
        for number, view in enumerate(views)
    )
