"""The contract between Blender and the engine: numpy and the standard library only.

One module for each thing that crosses the process border:

* ``conventions``  axes, colour and compositing constants
* ``cameras``      one view's camera
* ``capture``      the directory of training views (transforms.json)
* ``run``          the directory of one fit
* ``events``       JSON lines from the engine, and commands to it
* ``settings``     every setting, declared once
* ``splats``       the in-memory cloud
* ``ply``          the PLY container; ``splat_ply`` and ``point_ply`` what we store in it
* ``exr``          reading the capture's views with numpy alone
* ``files``        writing aside and renaming
* ``errors``       the one error a person reads
"""
