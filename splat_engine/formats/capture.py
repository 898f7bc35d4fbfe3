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
from typing import Any, Literal, get_args, get_type_hints

from splat_engine.formats.cameras import Camera, camera_from_frame
from splat_engine.formats.errors import FormatError, UserError
from splat_engine.formats.files import read_json, write_json

CAPTURE_VERSION = 1
TRANSFORMS_NAME = "transforms.json"
PARTIAL_NAME = "transforms.partial.json"
"""The finished views of a capture that was interrupted; ``read_capture`` takes the file's path."""
PROPOSED_NAME = "proposed.json"
"""Cameras alone, in the form of transforms.json: what ``splat-engine propose`` wants rendered next, best first."""
INIT_NAME = "init.ply"
PASSES = ("depth", "normal", "position", "object_index")

Split = Literal["train", "test"]

_UNREAD_KEYS = {"depth_file_path": "depth pictures"}


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
        mask: Path of a picture relative to the capture that is black where the view does not count, or None.
    """

    camera: Camera
    split: Split = "train"
    exr: str | None = None
    image: str | None = None
    frame: int = 0
    time_s: float = 0.0
    mask: str | None = None


@dataclass(frozen=True)
class CaptureInfo:
    """What a capture says of itself, under the key "splatfit".

    Attributes:
        source: Path of the .blend, or "".
        unit_scale_m: Metres a scene unit.
        view_transform: Blender's view transform and look of the PNGs, such as "AgX".
        color_space: "linear" if the EXR files are the truth, "srgb" if the pictures are.
        passes: Which of PASSES the EXR files hold.
        samples: Render samples a training view; 0 where nobody knows.
        denoised: Whether a denoiser has smoothed the views.
        box_filtered: Whether a pixel of a training view is the mean over the pixel; held-out views went through Blender's
            wider filter all the same, for that is what a person will see.
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
    denoised: bool = False
    box_filtered: bool = False
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
        notes: What the files say and we do not use, in words for the reader.
        world_from_colmap: [3, 4] what brings points of the COLMAP reconstruction that the cameras are from into their
            world (nerfstudio's applied_transform), or None if nothing is said: then they are in one world.
    """

    root: Path
    views: tuple[View, ...]
    info: CaptureInfo = field(default_factory=CaptureInfo)
    init: Path | None = None
    notes: tuple[str, ...] = ()
    world_from_colmap: tuple[tuple[float, ...], ...] | None = None

    def of_split(self, split: Split) -> tuple[View, ...]:
        """Returns the views of a split."""
        return tuple(view for view in self.views if view.split == split)


def write_capture(capture: Capture, *, name: str = TRANSFORMS_NAME) -> Path:
    """Writes transforms.json, whole or not at all.

    Args:
        capture: The views; their pixels are not touched.
        name: Name of the file in the capture's folder.

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
            "denoised": info.denoised,
            "box_filtered": info.box_filtered,
            "engine": info.engine,
            "object_names": list(info.object_names),
            "bounds_min": info.bounds_min and list(info.bounds_min),
            "bounds_max": info.bounds_max and list(info.bounds_max),
        },
    }
    if capture.init is not None:
        document["ply_file_path"] = capture.init.relative_to(capture.root).as_posix()
    if capture.world_from_colmap is not None:
        document["applied_transform"] = [list(row) for row in capture.world_from_colmap]
    path = capture.root / name
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
    mask = {} if view.mask is None else {"mask_path": view.mask}
    return {"file_path": _name_of(view), **mask, **view.camera.to_frame(), "splatfit": ours}


def read_capture(path: str | Path) -> Capture:
    """Reads a capture, or a nerfstudio or NeRF-synthetic data set.

    NeRF-synthetic's transforms_train.json and transforms_test.json beside each other are read as one.
    Frames whose file is missing are an error, not a silence; depth pictures of others get a note.

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
    info, init, applied = CaptureInfo(color_space="srgb"), None, None
    notes: list[str] = []
    for file, split in files:
        document = read_json(file, "capture")
        frames = document.get("frames") if isinstance(document, dict) else None
        if not isinstance(frames, list) or not all(isinstance(frame, dict) for frame in frames):
            raise FormatError(f"{file} has no list of frames.", "Is it a transforms.json?")
        if document.get("splatfit") is not None:
            info = _info_of(_typed(document, "splatfit", dict, {}, str(file)), file)
        views += _views_of(document, file, root, split)
        init_name = _typed(document, "ply_file_path", str, "", str(file))
        init = root / init_name if init_name else init
        applied = _applied_transform(document, str(file)) or applied
        unread = [words for key, words in _UNREAD_KEYS.items() if any(key in frame for frame in frames)]
        notes += [f"{file}: the {words} it names are not used." for words in unread]
    if not any(view.split == "train" for view in views):
        raise UserError(f"{path} holds no training view.", "Capture at least one view that is not held out.")
    if init is not None and not init.is_file():
        raise UserError(
            f"The start points {init} are missing.", "Capture again, or remove ply_file_path from the file."
        )
    return Capture(root, tuple(views), info, init, tuple(notes), applied)


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
    where = f'{file}, under "splatfit"'
    defaults = CaptureInfo()
    values: dict[str, Any] = {}
    for name in ("source", "view_transform", "color_space", "engine"):
        values[name] = _typed(ours, name, str, getattr(defaults, name), where)
    if values["color_space"] not in get_args(get_type_hints(CaptureInfo)["color_space"]):
        raise FormatError(f"{where}, has the color_space {values['color_space']!r}.", "It is linear or srgb.")
    values["unit_scale_m"] = _typed(ours, "unit_scale_m", float, defaults.unit_scale_m, where)
    values["samples"] = _typed(ours, "samples", int, defaults.samples, where)
    for name in ("denoised", "box_filtered"):
        values[name] = _typed(ours, name, bool, getattr(defaults, name), where)
    for name, kind in (("passes", str), ("object_names", str), ("bounds_min", float), ("bounds_max", float)):
        values[name] = _tuple(ours, name, kind, getattr(defaults, name), where)
    for name in ("bounds_min", "bounds_max"):
        if values[name] is not None and len(values[name]) != 3:
            raise FormatError(f"{where}, has a {name} that is not three numbers.", _AGAIN)
    return CaptureInfo(**values)


_AGAIN = "Capture again, or write the data set anew."


def _typed(table: dict[str, Any], key: str, kind: type, default: Any, where: str) -> Any:
    """Returns the value of a key, checked to be of a type; what is absent or null gives the default."""
    value = table.get(key)
    if value is None:
        return default
    if kind is float and type(value) is int and abs(value) < 2**1000:
        return float(value)
    if type(value) is not kind:
        raise FormatError(f"{where}, has {key} {value!r}, which is not of type {kind.__name__}.", _AGAIN)
    return value


def _tuple(table: dict[str, Any], key: str, kind: type, default: Any, where: str) -> Any:
    values = _typed(table, key, list, None, where)
    if values is None:
        return default
    return tuple(_typed({key: value}, key, kind, None, where) for value in values)


def _applied_transform(document: dict[str, Any], where: str) -> tuple[tuple[float, ...], ...] | None:
    key = "applied_transform"
    rows = _typed(document, key, list, None, where)
    if rows is None:
        return None
    matrix = tuple(_tuple({key: row}, key, float, (), where) for row in rows[:3])
    if len(matrix) < 3 or any(len(row) != 4 for row in matrix):
        raise FormatError(
            f"{where}, has an applied_transform that is not three rows of four numbers.", _AGAIN
        )
    return matrix


def _views_of(document: dict[str, Any], file: Path, root: Path, split: Split | None) -> list[View]:
    held_out = {
        name
        for key in ("test_filenames", "val_filenames")
        for name in _tuple(document, key, str, (), str(file))
    }
    views = []
    for number, frame in enumerate(document["frames"]):
        where = f"Frame {number} of {file}"
        ours = _typed(frame, "splatfit", dict, {}, where)
        exr, image = _files_of(frame, ours, root, where)
        size = _png_size(root / image) if image else None
        camera = _with_ours(camera_from_frame(frame, document, where=where, image_size=size), ours, where)
        own_split = _typed(ours, "split", str, split, where) or _listed_split(frame, held_out)
        if own_split not in get_args(Split):
            raise FormatError(f"{where} is of the split {own_split!r}.", "It is train or test.")
        frame_number = _typed(ours, "frame", int, 0, where)
        time_s = _typed(ours, "time_s", float, 0.0, where)
        mask = _typed(frame, "mask_path", str, None, where)
        _check_files(root, where, mask)
        views.append(View(camera, own_split, exr, image, frame_number, time_s, mask))
    return views


def _with_ours(camera: Camera, ours: dict[str, Any], where: str) -> Camera:
    name = _typed(ours, "camera", str, camera.name, where)
    near, far = (_typed(ours, key, float, getattr(camera, key), where) for key in ("near", "far"))
    try:
        return replace(camera, name=name, near=near, far=far)
    except FormatError as error:
        raise FormatError(f"{where}: {error.headline}", error.hint, error.cause) from error


def _listed_split(frame: dict[str, Any], held_out: set[str]) -> Split:
    return "test" if str(frame.get("file_path")) in held_out else "train"


def _files_of(
    frame: dict[str, Any], ours: dict[str, Any], root: Path, where: str
) -> tuple[str | None, str | None]:
    exr: str | None = _typed(ours, "exr", str, None, where)
    image: str | None = _typed(ours, "image", str, None, where)
    if not ours:
        name = _typed(frame, "file_path", str, "", where)
        if not name:
            raise FormatError(f"{where} has no file_path.", _AGAIN)
        image = _with_suffix(name, root)
    _check_files(root, where, exr, image)
    return exr, image


def _check_files(root: Path, where: str, *names: str | None) -> None:
    for named in names:
        if named is not None and not (root / named).is_file():
            raise UserError(
                f"{where} names {named}, which is not there.",
                "Finish or repeat the capture, or drop the view from the file.",
            )


def _with_suffix(name: str, root: Path) -> str:
    """NeRF-synthetic leaves the suffix out."""
    for suffix in ("", ".png", ".jpg", ".jpeg"):
        if (root / (name + suffix)).is_file():
            return name + suffix
    return name


def _png_size(path: Path) -> tuple[int, int] | None:
    """Returns (width, height) from a PNG's header, None for other files."""
    try:
        with path.open("rb") as stream:
            head = stream.read(24)
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.", "Check its permissions.", error) from error
    if head[:8] != b"\x89PNG\r\n\x1a\n" or len(head) < 24:
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
