"""The small tools that strategies share."""

from __future__ import annotations

import math

import torch

from splat_engine.fit.strategies.children import draw_by_weight, highest, rotate


def test_rotate_is_the_rotation_of_the_quaternion() -> None:
    """A quarter turn about z takes x to y, at any norm."""
    quats = torch.tensor([[math.sqrt(0.5), 0, 0, math.sqrt(0.5)]]) * 3
    torch.testing.assert_close(rotate(quats, torch.tensor([[1.0, 0, 0]])), torch.tensor([[0.0, 1.0, 0.0]]))


def test_draws_follow_the_weights() -> None:
    """In the long run each index comes in proportion to its weight, those of weight 0 never; same seed, same draw."""
    weights = torch.tensor([0.0, 1.0, 3.0, 0.0])
    drawn = draw_by_weight(weights, 40000, torch.Generator().manual_seed(1))
    shares = torch.bincount(drawn, minlength=4) / 40000
    assert shares[0] == shares[3] == 0
    torch.testing.assert_close(shares[1:3], torch.tensor([0.25, 0.75]), rtol=0, atol=0.01)
    assert torch.equal(drawn, draw_by_weight(weights, 40000, torch.Generator().manual_seed(1)))
    assert len(draw_by_weight(weights, 0, torch.Generator())) == 0


def test_the_highest_are_chosen() -> None:
    """Above a threshold, ascending by index, the first of equals where there are too many."""
    values = torch.tensor([0.1, 0.9, 0.5, 0.9, 0.7])
    assert highest(values, 0.4, 9).tolist() == [1, 2, 3, 4]
    assert highest(values, 0.4, 3).tolist() == [1, 3, 4] and highest(values, 0.4, 1).tolist() == [1]
    assert highest(values, 0.4, 0).tolist() == highest(values, 0.4, -3).tolist() == []
