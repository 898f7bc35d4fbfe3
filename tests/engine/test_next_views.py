"""splat_engine.fit.next_views: what a view sees of splats, and which views are chosen by it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from splat_engine.fit.drawing import blend, to_screen
from splat_engine.fit.formation import ImageFormation
from splat_engine.fit.model import SplatState
from splat_engine.fit.next_views import choose_views, look_at_splats
from splat_engine.fit.pictures import draw_view
from splat_engine.fit.views import ViewList, camera_tensors, view_tensors
from splat_engine.formats.cameras import Camera
from splat_engine.formats.splats import Splats
from tests.engine.tiny_capture import HEIGHT, WIDTH, known_splats, look_at, tensors

FORMATION = ImageFormation("blender")


def camera(degrees: float, distance: float = 4.0, aim: tuple[float, float, float] = (0, 0, 0)) -> Camera:
    """Returns a camera beside the origin, ``degrees`` around it."""
    angle = math.radians(degrees)
    position = np.array([distance * math.cos(angle), distance * math.sin(angle), 0.4])
    pose = look_at(position, np.array(aim, float))
    return Camera(WIDTH, HEIGHT, 1.1 * WIDTH, 1.1 * WIDTH, WIDTH / 2, HEIGHT / 2, pose)


def views(params: dict[str, Tensor], cameras: list[Camera], error: float = 0.0) -> ViewList:
    """Returns what the splats show, brighter by ``error`` where anything is."""
    made = []
    for item in cameras:
        drawn = draw_view(params, item, FORMATION)
        made.append(view_tensors(item, drawn.blended + error * drawn.alpha[..., None], drawn.alpha))
    return ViewList(made)


def joined(*clouds: Splats) -> dict[str, Tensor]:
    parts = [SplatState.from_splats(cloud).params for cloud in clouds]
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def test_pixels_and_error_are_what_autograd_says() -> None:
    """Pixels are the gradient of the picture's sum by a splat's colour, its error that of the sum weighted with the error."""
    params, eye = tensors(known_splats()), camera(20)
    target = views(params, [eye], error=0.2)[0].color
    seen = look_at_splats(params, eye, FORMATION, target=target)
    drawn = draw_view(params, eye, FORMATION)
    error = (FORMATION.picture(drawn.blended) - FORMATION.picture(target)).square().mean(dim=-1)
    screen = to_screen(params, *camera_tensors(eye), eye, FORMATION)
    leaf = screen.colors.clone().requires_grad_()
    shown = blend(screen._replace(colors=leaf), eye, background=torch.zeros(3)).blended[..., 0]
    (pixels,) = torch.autograd.grad(shown.sum(), leaf, retain_graph=True)
    (weighted,) = torch.autograd.grad((shown * error).sum(), leaf)
    assert float(pixels.sum()) > 200 and float(weighted.sum()) > 1
    torch.testing.assert_close(seen.pixels, pixels[:, 0])
    torch.testing.assert_close(seen.error, weighted[:, 0])


def test_a_view_that_is_reached_has_no_error_and_no_target_none() -> None:
    """The residual of a perfect fit is zero, and a candidate has none."""
    params, eye = tensors(known_splats()), camera(20)
    exact = look_at_splats(params, eye, FORMATION, target=views(params, [eye])[0].color)
    blind = look_at_splats(params, eye, FORMATION)
    assert float(exact.error.abs().max()) < 1e-9 and float(blind.error.abs().max()) == 0
    torch.testing.assert_close(exact.pixels, blind.pixels)


def test_the_side_that_no_view_has_seen_comes_first() -> None:
    """All training views are on one side: the candidate on the other is chosen, and not the one between them."""
    params = tensors(known_splats())
    taught = views(params, [camera(-20), camera(0), camera(20)], error=0.1)
    assert choose_views(params, taught, [camera(10), camera(180), camera(-10)], 1, FORMATION) == [1]


def test_a_second_view_of_the_same_is_worth_less() -> None:
    """Of two equal candidates and one elsewhere, the equal ones are not taken both before the other."""
    params = tensors(known_splats())
    taught = views(params, [camera(0)], error=0.1)
    chosen = choose_views(params, taught, [camera(180), camera(181), camera(90)], 3, FORMATION)
    assert sorted(chosen) == [0, 1, 2]
    assert 2 in chosen[:2], "both views from behind were taken first"


def test_views_go_where_the_fit_is_wrong() -> None:
    """Two bodies are seen alike; only one is drawn wrong, and the candidate that looks at it wins, whichever it is."""
    left, right = (
        replace(known_splats(60, seed=3), means=known_splats(60, seed=3).means + np.float32([0, side, 0]))
        for side in (-6, 6)
    )
    params = joined(left, right)
    training = [camera(0, 12, (0, -6, 0)), camera(0, 12, (0, 6, 0))]
    offered = [camera(30, 12, (0, -6, 0)), camera(-30, 12, (0, 6, 0))]
    for wrong in (0, 1):
        taught = [views(params, [item], error=0.3 * (n == wrong))[0] for n, item in enumerate(training)]
        assert choose_views(params, ViewList(taught), offered, 1, FORMATION) == [wrong]


def test_what_sees_nothing_is_never_chosen() -> None:
    """A candidate that looks away is left out, though more are asked for than there are."""
    params = tensors(known_splats())
    away = camera(0, 4, (40, 0, 0))
    assert choose_views(params, views(params, [camera(0)]), [away, camera(90)], 5, FORMATION) == [1]


def test_no_splats_choose_nothing() -> None:
    """N = 0 gives no view, and so do training views that see none of the splats."""
    empty = {name: value[:0] for name, value in tensors(known_splats()).items()}
    assert choose_views(empty, views(empty, [camera(0)]), [camera(90)], 1, FORMATION) == []
    params, away = tensors(known_splats()), camera(0, 4, (40, 0, 0))
    assert choose_views(params, views(params, [away]), [camera(90)], 1, FORMATION) == []


def test_an_orthographic_camera_is_understood() -> None:
    """Its direction is its axis, the same for all splats."""
    params = tensors(known_splats())
    eye = replace(camera(0), model="orthographic", fx=12.0, fy=12.0)
    seen = look_at_splats(params, eye, FORMATION)
    assert float(seen.pixels.sum()) > 100
    assert float((seen.basis - seen.basis[0]).abs().max()) == 0


def test_the_choice_is_the_same_again() -> None:
    """Same splats and views, same choice."""
    params = tensors(known_splats())
    taught, offered = views(params, [camera(0)], error=0.1), [camera(40 * n) for n in range(1, 9)]
    first = choose_views(params, taught, offered, 4, FORMATION)
    assert first == choose_views(params, taught, offered, 4, FORMATION) and len(set(first)) == 4
