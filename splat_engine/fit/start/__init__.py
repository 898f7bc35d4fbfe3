"""The first splats of a fit: from a file, from the surfaces that the views show, or at random; and the scene's size.

Numpy and scipy alone: nothing here is optimised.
"""

from splat_engine.fit.start.first import Start, start_splats

__all__ = ["Start", "start_splats"]
