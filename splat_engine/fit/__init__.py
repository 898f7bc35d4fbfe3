"""Fitting Gaussians to a capture: model, losses, optimiser, strategies, data, checkpoint, loop."""
