"""The tab in each of its states, on a small scene, without an engine: at rest, cameras shown, test view, custom, advanced."""

from importlib import import_module
from math import radians

import bpy
from mathutils import Euler

MODULE = "bl_ext.user_default.splatfit"


def build_scene():
    """A monkey on a floor beside a column, seen from a little above."""
    for item in list(bpy.data.objects):
        bpy.data.objects.remove(item)
    bpy.ops.mesh.primitive_plane_add(size=40)
    bpy.context.object.name = "Floor"
    bpy.ops.mesh.primitive_monkey_add(size=2, location=(0, 0, 1))
    bpy.ops.mesh.primitive_cylinder_add(radius=0.4, depth=3, location=(1.8, 1, 1.5))
    bpy.context.object.name = "Column"
    bpy.ops.object.light_add(type="SUN", rotation=(0.6, 0.2, 0))
    bpy.ops.object.select_all(action="DESELECT")


def make_room(window):
    """The viewport alone fills the window, so that the whole tab is seen; nothing is said of the engine."""
    bpy.utils.unregister_class(import_module(f"{MODULE}.panels.engine").SPLATFIT_PT_engine)
    with bpy.context.temp_override(window=window.window, area=window.area):
        bpy.ops.screen.screen_full_area(use_hide_panels=False)
    yield from window.settle(10)
    view = window.area.spaces.active.region_3d
    view.view_perspective = "PERSP"
    view.view_rotation = Euler((radians(65), 0, radians(35))).to_quaternion()
    view.view_distance, view.view_location = 26, (0, 0, 1.5)


def watch(panel):
    """Returns a list that grows with each draw of a panel's body."""
    drawn, draw = [], panel.draw
    panel.draw = lambda self, context: (drawn.append(1), draw(self, context))[1]
    return drawn


def open_lowest(window, panel):
    """Clicks the headers from below until that panel is open; those that are opened by mistake are closed again."""
    drawn = watch(panel)
    region = window.sidebar
    x = region.x + region.width // 2
    for y in range(region.y + 6, region.y + region.height, 12):
        yield from window.click_at(x, y)
        if drawn:
            return
    raise AssertionError(f"{panel.__name__} could not be opened")


def scroll_down(window):
    """Scrolls the sidebar to its end."""
    x, y = window.sidebar.x + 100, window.sidebar.y + window.sidebar.height // 2
    yield from window.move(x, y)
    for _ in range(40):
        window.window.event_simulate(type="WHEELDOWNMOUSE", value="PRESS", x=x, y=y)
        yield
    yield from window.settle()


def scenario(window):
    """Looks at every state; a click on Show Cameras shows the rig and another one takes it away."""
    build_scene()
    yield from make_room(window)
    yield from window.open_tab()
    overlay = import_module(f"{MODULE}.rig_overlay")
    chosen = bpy.context.scene.splatfit
    yield from window.settle(20)
    yield from window.picture("at-rest")

    chosen.quality = "draft"
    chosen.capture.resolution = 128
    yield from window.click("splatfit.show_rig(")
    assert overlay.shown(bpy.context.scene) is not None
    yield from window.settle(10)
    yield from window.picture("cameras")
    chosen.capture.rig = "ring"
    yield from window.settle(10)
    yield from window.picture("ring-at-once")
    yield from window.click("splatfit.test_view(")
    yield from window.settle(20)
    yield from window.picture("test-view")

    yield from window.click("splatfit.show_rig(")
    assert overlay.shown(bpy.context.scene) is None
    chosen.quality = "custom"
    chosen.target_kind, chosen.target_object = "OBJECT", bpy.data.objects["Suzanne"]
    yield from window.settle(20)
    yield from window.picture("custom")

    chosen.quality, chosen.target_kind = "standard", "SCENE"
    import_module(f"{MODULE}.test_view").unregister()  # its picture takes room
    yield from window.settle(20)
    settings = import_module(f"{MODULE}.panels.settings")
    yield from open_lowest(window, settings.SPLATFIT_PT_advanced)
    yield from window.settle(10)
    yield from window.picture("advanced")
    yield from scroll_down(window)
    yield from open_lowest(window, bpy.types.SPLATFIT_PT_tidy)
    yield from scroll_down(window)
    yield from window.picture("clean-up")
