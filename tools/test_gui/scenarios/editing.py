"""Splats edited in a window: floaters removed, faint ones counted in a dialog, an object selected, and all of it undone."""

from importlib import import_module

import bpy
import numpy as np

MODULE = "bl_ext.user_default.splatfit"
COUNT, FLOATERS = 1500, 12


def scenario(window):
    """Goes through the panel as after a fit whose originals are hidden; counts after each step and after each undo."""
    splats_of = import_module("splat_engine.formats.splats").Splats
    splat_object = import_module(f"{MODULE}.scene.splat_object")
    for name in ("Camera", "Light"):  # they would stand in the picture
        bpy.data.objects.remove(bpy.data.objects[name])
    bpy.ops.mesh.primitive_uv_sphere_add(radius=2)
    object = splat_object.add_splats(ball(splats_of), bpy.context.scene, name="Fit").object
    bpy.data.objects["Sphere"].hide_set(True)
    bpy.data.objects["Cube"].hide_set(True)
    bpy.ops.object.select_all(action="DESELECT")
    object.select_set(True)
    bpy.context.view_layer.objects.active = object
    bpy.ops.ed.undo_push(message="the fit")
    yield from make_room(window)
    yield from window.open_tab()
    window.look_from((7, -7, 5), (0, 0, 0))
    yield from window.picture("panel")

    yield from window.click("splatfit.remove_floaters(")
    yield from window.wait_until(lambda: count() == COUNT - FLOATERS, "the floaters to go")
    yield from window.picture("floaters-removed")
    yield from undo(window)
    assert count() == COUNT, count()
    assert bpy.data.objects["Sphere"].hide_get()

    yield from window.click("splatfit.filter(")
    yield from window.picture("dialog")
    yield from window.key("RET")
    yield from window.wait_until(lambda: count() < COUNT, "the faint ones to go")
    yield from window.picture("faint-removed")
    yield from undo(window)
    assert count() == COUNT, count()

    yield from window.click("splatfit.select_by_source(")
    yield from window.picture("choose-an-object")
    yield from window.key("ESC")
    bpy.ops.splatfit.select_by_source("EXEC_DEFAULT", True, object="Sphere")
    yield from window.key("TAB")
    yield from window.wait_until(lambda: bpy.context.mode == "EDIT_POINTCLOUD", "Edit Mode")
    bpy.data.objects["Fit"].modifiers[0].show_viewport = False
    yield from window.picture("object-selected")
    bpy.data.objects["Fit"].modifiers[0].show_viewport = True
    bpy.ops.splatfit.delete_selected("EXEC_DEFAULT", True)
    yield from window.settle()
    left = count()
    assert 0 < left < COUNT, left
    yield from window.picture("object-deleted")
    yield from undo(window)
    assert count() == COUNT, count()
    yield from window.key("TAB")
    yield from window.wait_until(lambda: bpy.context.mode == "OBJECT", "Object Mode")
    yield from window.picture("all-is-back")


def make_room(window):
    """The viewport fills the window, and other panels' bodies go, so that nothing has to be scrolled."""
    panels = import_module(f"{MODULE}.panels")
    kept = (
        panels.main.SPLATFIT_PT_main,
        panels.presets.SPLATFIT_PT_presets,
        panels.editing.SPLATFIT_PT_edit,
    )
    for panel in panels.CLASSES:
        if panel not in kept and issubclass(panel, bpy.types.Panel):
            bpy.utils.unregister_class(panel)
    with bpy.context.temp_override(window=window.window, area=window.area):
        bpy.ops.screen.screen_full_area(use_hide_panels=False)
    yield from window.settle(10)


def count():
    """Returns the number of splats."""
    return len(bpy.data.objects["Fit"].data.points)


def undo(window):
    """Presses Control and Z over the viewport."""
    x, y = window.area.x + window.area.width // 4, window.area.y + window.area.height // 2
    yield from window.move(x, y)
    for value in ("PRESS", "RELEASE"):
        window.window.event_simulate(type="Z", value=value, x=x, y=y, ctrl=True)
        yield from window.settle(2)
    yield from window.settle(10)


def ball(splats_of):
    """Returns splats on a sphere of radius 2, of an upper and a lower object, every fifth faint, and some in the air."""
    random = np.random.default_rng(0)
    means = random.normal(size=(COUNT, 3))
    means *= 2 / np.linalg.norm(means, axis=1, keepdims=True)
    means[:FLOATERS] *= 2
    colors = 0.5 + 0.3 * means / 2
    opacities = np.where(np.arange(COUNT) % 5 == 0, 0.02, 0.9)
    return splats_of(
        means=means,
        log_scales=np.full((COUNT, 3), np.log(0.06)),
        quats_wxyz=np.tile([1.0, 0, 0, 0], (COUNT, 1)),
        opacity_logits=np.log(opacities / (1 - opacities)),
        sh=((colors - 0.5) / 0.2820948)[:, None],
        object_indices=np.where(means[:, 2] > 0, 1, 2),
        object_names=("Sphere", "Cube"),
    )
