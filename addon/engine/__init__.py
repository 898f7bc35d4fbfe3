"""The engine as Blender sees it: its Python, its process, and how it is got.

* ``child_process``   a program of ours as a subprocess that tells events
* ``engine_process``  the engine's Python, command lines and process
* ``engine_jobs``     the engine of this Blender, and the set-up or check under way
* ``setup``           its environment made, from the network or from a folder
"""
