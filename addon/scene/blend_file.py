"""Opening and saving .blend files without a window, and finding things in them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bpy

from splat_engine.formats.errors import UserError
from splat_engine.formats.files import write_failure

from .splat_object import is_splat_object


@dataclass(frozen=True)
class OpenScene:
    """A scene of the open file, and the view layer that counts.

    Attributes:
        scene: The scene.
        view_layer: The window's where there is one and it shows the scene, else the scene's first that renders.
    """

    scene: Any
    view_layer: Any


def refuse_overwriting(source: Path | None, out: Path, force: bool) -> None:
    """Refuses to write over the file that is read.

    Args:
        source: The file that is read; None: the one that is open.
        out: The file to write.
        force: Allow it.

    Raises:
        UserError: Both are the same file, or ``out`` is no .blend.
    """
    if out.suffix.lower() != ".blend":
        raise UserError(f"The result {out} must be a .blend file.", "Give --out a name that ends in .blend.")
    read = source if source is not None else Path(bpy.data.filepath) if bpy.data.filepath else None
    if read is not None and not force and read.resolve() == out.resolve():
        raise UserError(
            f"The result would replace the source {out}.", "Choose another --out, or say --force."
        )


def open_scene(blend: Path | None, scene_name: str = "", scripts: bool = False) -> OpenScene:
    """Opens a file, if one is given, and returns the scene asked for.

    Args:
        blend: The file; None: the one that is open.
        scene_name: Name of the scene; "": the active one.
        scripts: Whether Python in the file may run.

    Raises:
        UserError: The file is missing or no .blend, or it has no such scene.
    """
    if blend is not None:
        _open(blend, scripts)
    elif not bpy.data.filepath:
        raise UserError("No .blend file is given.", "Name one: COMMAND FILE.blend.")
    scene: Any = bpy.data.scenes.get(scene_name) if scene_name else bpy.context.scene
    if scene is None:
        raise UserError(
            f"{bpy.data.filepath} has no scene {scene_name!r}.",
            f"Its scenes are: {', '.join(item.name for item in bpy.data.scenes)}.",
        )
    return OpenScene(scene, _view_layer(scene))


def _open(blend: Path, scripts: bool) -> None:
    if not blend.is_file():
        raise UserError(f"There is no file {blend}.", "Check the path.")
    try:
        bpy.ops.wm.open_mainfile(filepath=str(blend.resolve()), load_ui=False, use_scripts=scripts)
    except RuntimeError as error:
        text = str(error).removeprefix("Error: ").strip()
        raise UserError(
            f"Cannot open {blend}: {text}", "Is it a .blend file, and not newer than this Blender?", error
        ) from error


def _view_layer(scene: Any) -> Any:
    if bpy.context.scene == scene and bpy.context.view_layer is not None:
        return bpy.context.view_layer
    return next((layer for layer in scene.view_layers if layer.use), scene.view_layers[0])


def present_or_empty() -> OpenScene:
    """Returns the active scene of the open file; of a new, empty one where none was opened."""
    if not bpy.data.filepath:
        bpy.ops.wm.read_factory_settings(use_empty=True)
    scene = bpy.context.scene
    return OpenScene(scene, _view_layer(scene))


def splat_object(scene: Any, name: str = "") -> Any:
    """Returns the splat object of a name, or the only one in a scene.

    Raises:
        UserError: There is none, or there are several and none was named.
    """
    found = {item.name: item for item in scene.objects if is_splat_object(item)}
    if name:
        if name not in scene.objects:
            raise UserError(
                f"The scene {scene.name!r} has no object {name!r}.",
                f"Its splat objects are: {', '.join(found)}." if found else "It has no splat object at all.",
            )
        return scene.objects[name]
    if len(found) != 1:
        many = f"has {len(found)} splat objects" if found else "has no splat object"
        raise UserError(
            f"The scene {scene.name!r} {many}.",
            f"Name one with --object: {', '.join(found)}." if found else "Fit or import splats first.",
        )
    return next(iter(found.values()))


def save(out: Path, **options: Any) -> None:
    """Saves the open file as another one, whole or not at all, with the same pictures and libraries.

    Args:
        out: The other file.
        options: More of Blender's, such as ``compress``.

    Raises:
        UserError: It cannot be written.
    """
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        # Blender itself writes aside and renames.
        bpy.ops.wm.save_as_mainfile(filepath=str(out.resolve()), copy=True, check_existing=False, **options)
    except OSError as error:
        raise write_failure(out, error) from error
    except RuntimeError as error:
        text = str(error).removeprefix("Error: ").strip()
        raise UserError(f"Cannot write {out}: {text}", "Check the folder and the disk.", error) from error
