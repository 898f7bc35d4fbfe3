"""What is shown and how: pieces of panels, pictures, lines in the viewport, the live preview.

* ``layouts``        texts over several lines
* ``error_box``      an error and the buttons that mend it
* ``engine_box``     the engine: missing, on its way, found
* ``picture_icon``   a picture as an icon, which is how panels show pictures
* ``curve_picture``  a fit's course as such a picture
* ``test_view``      a view rendered as a test
* ``rig_lines``      cameras and target as lines; pure numpy
* ``rig_overlay``    those lines in the viewport
* ``first_look``     the capture's points as splats, until the engine has some
* ``snapshots``      splats of a running fit, read aside
* ``preview``        the live preview in the viewport
* ``engine_view``    the engine's picture in an Image Editor
"""
