"""What can be done to splats after the fit.

* ``points``    points deleted, split off and selected, every attribute kept
* ``measures``  which splats are faint, of an odd size or alone; numpy alone
* ``volumes``   which splats lie inside a box, a sphere or a mesh
* ``surfaces``  which splats lie near the objects that they were made from
* ``placing``   an object's transform goes into its splats
"""
