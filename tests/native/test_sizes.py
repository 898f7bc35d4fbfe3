"""Every op at sizes that are no multiple of anything, with any number of threads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from splat_engine import native
from splat_engine.native import structs
from tests.native.all_ops import Case, relative_error, run_all

SIZES = [(1, 1), (3, 5), (33, 31), (257, 129)]
"""Width and height, px."""


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """Leaves the number of threads as it was."""
    before = native.get_num_threads()
    yield
    native.set_num_threads(before)


def test_every_op_is_called() -> None:
    """all_ops.py calls each op of the C ABI: a new op belongs there too, or no sanitizer sees it at odd sizes."""
    assert set(run_all(Case(1, 1, 1, "float32")).ops) == set(structs.OPS)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("count", [0, 1, 777, 5000])
def test_any_size_and_thread_count(count: int, size: tuple[int, int], dtype: str) -> None:
    """Every number is written and finite; threads change gradients by rounding alone, and nothing from run to run."""
    case = Case(count, *size, dtype)
    native.set_num_threads(1)
    alone = run_all(case).arrays
    for threads in (2, 3, 7):
        native.set_num_threads(threads)
        calls, again = run_all(case), run_all(case)
        for name in calls.outputs:
            found = calls.arrays[name]
            assert np.isfinite(found).all(), name
            assert np.array_equal(found, again.arrays[name]), name
            assert relative_error(found, alone[name]) < (1e-5 if dtype == "float32" else 1e-13), name
    if count >= 777:
        assert alone["alpha"].max() > 0.05
        left_alone = (alone["update1_means"] == alone["means"]).all(axis=1)
        assert left_alone.any() and not left_alone.all()
        assert all(
            alone[name].any() for name in ("v_conics", "ssim0_v_image", "v_means", "v_viewmat", "sh_v_sh")
        )
