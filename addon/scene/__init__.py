"""Splats, and the originals they replace, as Blender holds them: attributes, objects, files.

* ``encoding``        splats as point attributes, and back; numpy alone
* ``transforms``      splats moved, turned and stretched; numpy alone
* ``point_cloud``     the datablock that holds them
* ``ellipsoids``      how a Blender before 5.3 shows them
* ``splat_object``    the object, made, refilled and read
* ``results``         results of a run, and originals hidden for them
* ``compare``         splats or originals, by their eye icons
* ``blend_file``      .blend files opened and saved
* ``blender_render``  what Blender draws of an object
"""
