"""A fit from the first view to the result: the one that runs, and those before it.

* ``session``          one fit, as a state machine
* ``running``          the one session of this Blender
* ``workflow``         capture, fit and import put together
* ``following``        the session followed by a timer, its result put into the scene
* ``background``       views rendered by a second Blender
* ``capture_process``  that Blender's command line and process
* ``adviser``          the engine asked for views
* ``curve``            a fit's course, kept short
* ``earlier_runs``     runs beside the file
* ``run_follower``     a run of another program, watched
"""
