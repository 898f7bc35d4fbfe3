"""addon.blender: functions that Blender calls, told once and taken back."""

import bpy

from addon import blender


def test_a_function_is_called_once_in_every_file_until_it_is_taken_back() -> None:
    """However often it was asked for, and after another file was opened too; taken back twice, nothing happens."""
    calls = []

    def note(*_):
        calls.append(1)

    for _ in range(2):
        blender.call_at("load_pre", note)
    for count in (1, 2):
        bpy.ops.wm.read_factory_settings(use_empty=True)
        assert len(calls) == count
    for _ in range(2):
        blender.call_no_more("load_pre", note)
    bpy.ops.wm.read_factory_settings(use_empty=True)
    assert len(calls) == 2
