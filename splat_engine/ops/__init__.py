"""Differentiable ops on torch tensors: one module a family, backends "cpu", "cuda" and "reference"."""

from splat_engine.native import get_num_threads, set_num_threads
from splat_engine.ops._cuda.launch import check_card
from splat_engine.ops.adam import adam_step
from splat_engine.ops.photometric import (
    PhotometricLoss,
    photometric_loss,
    photometric_loss_and_gradients,
)
from splat_engine.ops.project import Projected, project
from splat_engine.ops.project_colors import project_colors
from splat_engine.ops.rasterize import RasterPass, rasterize
from splat_engine.ops.relocate import relocate
from splat_engine.ops.sh import sh_colors
from splat_engine.ops.ssim import ssim
from splat_engine.ops.train_step import TrainStep, train_step
from splat_engine.ops.update import ScreenGradients, update_splats

__all__ = [
    "PhotometricLoss",
    "Projected",
    "RasterPass",
    "ScreenGradients",
    "TrainStep",
    "adam_step",
    "check_card",
    "get_num_threads",
    "photometric_loss",
    "photometric_loss_and_gradients",
    "project",
    "project_colors",
    "rasterize",
    "relocate",
    "set_num_threads",
    "sh_colors",
    "ssim",
    "train_step",
    "update_splats",
]
