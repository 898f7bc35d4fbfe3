"""What a person sets: properties, choices that fill them, presets, preferences.

* ``properties``   one for each setting, from its declaration
* ``choices``      target, quality and result
* ``target_size``  how large the target is
* ``preferences``  the engine's Python and packages
* ``presets``      ours, in Blender's preset system
"""
