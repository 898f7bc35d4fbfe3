"""Operators: what buttons and shortcuts call.

* ``fitting``  capture and fit, pause, stop, discard
* ``runs``     earlier runs: import, resume, watch, remove
* ``files``    PLY in and out
* ``rigs``     the rig in the viewport, and one view as a test
* ``results``  a result compared with the originals, and saved on the way
* ``presets``  all settings kept under a name
* ``editing``  splats moved, cropped, cleaned, selected and split
* ``engine``   is the engine's Python fit to be used?
* ``recovering``  what a button does about an error
* ``viewing``  the engine's picture on request
* ``words``    a person's mistake as a report, a failure of ours as a dialog
"""
