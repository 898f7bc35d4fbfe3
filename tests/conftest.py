"""What all tests share: reproducible property tests, and the real files beside the checkout."""

from __future__ import annotations

from pathlib import Path

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parents[1]

# Same examples each run; no database of old failures; no deadline, since machines differ. Tests that write files
# share their folder between examples: each example writes its file anew.
hypothesis.settings.register_profile(
    "splatfit",
    derandomize=True,
    deadline=None,
    max_examples=60,
    database=None,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
hypothesis.settings.load_profile("splatfit")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The real input files in ../shared/data; a checkout without them skips the test."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"the real files of {folder} are not beside this checkout")
    return folder
