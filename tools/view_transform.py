"""Shows linear pictures as the scene's view transform shows them.

Run with Blender's Python: ``python tools/view_transform.py SCENE.blend FOLDER [FOLDER ...]``. Every
``NAME.npy`` ([H, W, 3] scene-linear float32, first row on top) in a folder gets a ``NAME.png`` beside
it, through the scene's own display, view transform, look, exposure and curves.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import bpy
import numpy as np


def save_with_look(scene: bpy.types.Scene, linear: np.ndarray, path: Path) -> None:
    """Writes one picture as 8-bit PNG with the scene's look, no dither.

    Args:
        scene: Its colour management is used.
        linear: [H, W, 3] scene-linear, first row on top.
        path: The PNG.
    """
    height, width, _ = linear.shape
    image = bpy.data.images.new("view transform", width, height, float_buffer=True, alpha=False)
    pixels = np.ones((height, width, 4), np.float32)
    pixels[..., :3] = linear[::-1]
    image.pixels.foreach_set(pixels.ravel())
    image.update()
    image.save_render(str(path), scene=scene)
    bpy.data.images.remove(image)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("blend", type=Path, help="the scene whose look is used")
    parser.add_argument("folders", type=Path, nargs="+", help="folders of .npy pictures")
    parser.add_argument("--scene", default="", help="name of the scene; default: the file's active one")
    arguments = parser.parse_args()
    bpy.ops.wm.open_mainfile(filepath=str(arguments.blend))
    scene = bpy.data.scenes[arguments.scene] if arguments.scene else bpy.context.scene
    settings = scene.render.image_settings
    if hasattr(settings, "media_type"):
        settings.media_type = "IMAGE"
    settings.file_format, settings.color_mode, settings.color_depth = "PNG", "RGB", "8"
    scene.render.dither_intensity = 0.0
    for folder in arguments.folders:
        for path in sorted(folder.glob("*.npy")):
            save_with_look(scene, np.load(path), path.with_suffix(".png"))


if __name__ == "__main__":
    main()
