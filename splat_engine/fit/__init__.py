"""Fitting Gaussians to a capture.

* ``data``        the pixels of a capture's views; ``decoding`` and ``exr`` read the files
* ``formation``   the two image formations, and the sRGB curve
* ``start``       the first splats, and the scene's size; ``ahead`` makes them and pictures before torch is there
* ``model``       the splats under optimisation: parameters, moments, buffers
* ``drawing``     splats to a picture through the ops; ``pictures`` writes them
* ``losses``      what is minimised; ``metrics`` what is reported
* ``optimizer``   Adam and its schedules; ``guard`` the least size of a splat
* ``strategies``  how the number of splats changes
* ``trainer``     one step after another
* ``loop``        a run around it: ``prepare`` what it begins with, ``results`` its files, ``journal`` its events
* ``checkpoint``  all that a resume needs; ``commands`` where commands come from
* ``image2d``     2D Gaussians fitted to a picture; ``image2d_report`` its files
"""
