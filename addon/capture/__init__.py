"""The capture: views of the scene, rendered as training targets.

* ``cameras``      a Blender camera as the engine's ``Camera``, and back
* ``sources``      which cameras and frames of the scene become views
* ``survey``       a look at the scene as it renders (not as the viewport shows it)
* ``bounds``       what the target is and how large
* ``rigs``         cameras around a target; pure numpy
* ``inside``       cameras inside a room; pure numpy
* ``faces``        a camera on each face of a mesh
* ``seeing``       which of the scene's cameras see the target
* ``setting_aside``  the scene's settings recorded, and put back exactly
* ``render``       one view into one multilayer EXR
* ``pictures``     the same view with the scene's look
* ``points``       start points from what the views see; pure numpy
* ``fingerprint``  has the scene changed since a view was rendered?
* ``state``        which views are finished
* ``checks``       what a person should know before trusting a capture
* ``useful``       which places for a camera are of use
* ``plan``         cameras, splits and names of all views
* ``capture``      the job: all of it, stepwise, resumable
* ``adaptive``     the same in rounds, with views that the engine asks for
"""
