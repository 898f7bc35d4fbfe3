"""Splatfit without a window: the commands of ``python -m addon`` and of ``blender --command splatfit``.

* ``headless``         the commands, their exit codes and what they tell
* ``command_line``     their options
* ``headless_engine``  those about the engine itself
* ``event_stream``     their events, for a program that follows them
"""
