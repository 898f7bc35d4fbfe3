"""splat_engine.fit.next_views: views are chosen where the fit is wrong, and not twice in one place."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.next_views import choose_views
from splat_engine.fit.pictures import draw_view
from splat_engine.fit.views import ViewList, view_tensors
from splat_engine.formats.cameras import Camera
from tests.engine.tiny_capture import HEIGHT, WIDTH, known_splats, look_at, tensors

FORMATION = ImageFormation("blender")


def camera(degrees: float, distance: float = 4.0, aim: tuple[float, float, float] = (0, 0, 0)) -> Camera:
    """Returns a camera beside the origin, ``degrees`` around it."""
    angle = math.radians(degrees)
    position = np.array([distance * math.cos(angle), distance * math.sin(angle), 0.4])
    pose = look_at(position, np.array(aim, float))
    return Camera(WIDTH, HEIGHT, 1.1 * WIDTH, 1.1 * WIDTH, WIDTH / 2, HEIGHT / 2, pose)


def probes(
    params: dict[str, Tensor], cameras: list[Camera], errors: list[float], noise: float = 0.0
) -> ViewList:
    """Returns what the splats show, brighter by ``errors`` where anything is, with noise of a strength."""
    generator, made = torch.Generator().manual_seed(0), []
    for item, error in zip(cameras, errors, strict=True):
        drawn = draw_view(params, item, FORMATION)
        grain = noise * torch.randn(drawn.blended.shape, generator=generator)
        color = drawn.blended + (error + grain) * drawn.alpha[..., None]
        made.append(view_tensors(item, color.clamp_min(0), drawn.alpha))
    return ViewList(made)


def test_the_worst_comes_first() -> None:
    """Of views far apart, the order is that of their errors, and as many are returned as were asked for."""
    params, cameras = tensors(known_splats()), [camera(90 * n) for n in range(4)]
    seen = probes(params, cameras, [0.02, 0.8, 0.08, 0.3])
    assert choose_views(params, seen, 3, FORMATION) == [1, 3, 2]
    assert choose_views(params, seen, 1, FORMATION) == [1]


def test_a_neighbour_of_a_chosen_view_counts_less() -> None:
    """The second worst stands beside the worst: a view on the other side with less error goes before it."""
    params = tensors(known_splats())
    seen = probes(params, [camera(0), camera(5), camera(180)], [0.4, 0.39, 0.2])
    assert choose_views(params, seen, 3, FORMATION) == [0, 2, 1]


def test_noise_of_a_probe_does_not_hide_the_error() -> None:
    """Blocks even the noise out: with noise stronger than the error in every pixel, the wrong view is still found."""
    params, cameras = tensors(known_splats()), [camera(60 * n) for n in range(6)]
    for wrong in range(6):
        errors = [0.1 * (number == wrong) for number in range(6)]
        noisy = probes(params, cameras, errors, noise=0.15)
        assert choose_views(params, noisy, 1, FORMATION) == [wrong]


def test_a_missing_part_is_an_error() -> None:
    """Half of the splats are not there yet: the side they are missing on is chosen."""
    whole = tensors(known_splats(400))
    half = {name: value[whole["means"][:, 0] < 0.2] for name, value in whole.items()}
    seen = probes(whole, [camera(180), camera(0)], [0.0, 0.0])
    assert choose_views(half, seen, 1, FORMATION) == [1]


def test_what_is_drawn_right_is_not_chosen() -> None:
    """No error, no choice; nor among no candidates; and without splats the fullest view is the most wrong."""
    params, cameras = tensors(known_splats()), [camera(0), camera(90)]
    assert choose_views(params, probes(params, cameras, [0.0, 0.3]), 5, FORMATION) == [1]
    assert choose_views(params, ViewList([]), 5, FORMATION) == []
    empty = {name: value[:0] for name, value in params.items()}
    away = camera(0, 4, (40, 0, 0))
    assert choose_views(empty, probes(params, [away, cameras[0]], [0, 0]), 2, FORMATION) == [1]


def test_candidates_in_one_spot_are_taken_once() -> None:
    """Coincident cameras show the same: the second is worth nothing after the first."""
    params = tensors(known_splats())
    seen = probes(params, [camera(0), camera(0), camera(90)], [0.4, 0.4, 0.1])
    assert choose_views(params, seen, 3, FORMATION) == [0, 2]
