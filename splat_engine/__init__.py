"""The Splatfit engine: a differentiable Gaussian splat rasterizer and the fit built on it.

Importing this package does no work and needs no torch; Blender imports it for
``splat_engine.formats`` and ``splat_engine.native``.
"""
