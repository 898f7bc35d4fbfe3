"""Which device a setting means, and what is said when there is none."""

from __future__ import annotations

import pytest
import torch

from splat_engine.fit import place
from splat_engine.fit.place import CPU, choose_place, send
from splat_engine.formats.errors import UserError


@pytest.fixture
def two_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch says that it sees two cards; nothing is asked of them."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(place, "check_card", lambda device: None)


@pytest.fixture
def no_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.parametrize("name", ["cpu", "auto"])
def test_without_a_card_it_is_the_processor(no_card: None, name: str) -> None:
    """Asked for or left open; and it is told in words."""
    assert choose_place(name, pytest.fail) is CPU
    assert str(CPU).startswith("cpu, isa_") and "thread" in str(CPU)
    assert CPU.memory_bytes() is None and CPU.views_bytes() == 0


@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_a_missing_card_is_an_error(no_card: None, name: str) -> None:
    """Never the processor unasked."""
    with pytest.raises(UserError, match=f"no NVIDIA card.*{name}") as caught:
        choose_place(name)
    assert "--device cpu" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "index"), [("cuda", 0), ("cuda:0", 0), ("cuda:1", 1), ("auto", 0), ("cpu", None)]
)
def test_the_index_is_honoured(two_cards: None, name: str, index: int | None) -> None:
    """ "cuda" and "auto" are the first card."""
    chosen = choose_place(name, pytest.fail)
    assert chosen == (CPU if index is None else place.Place(torch.device("cuda", index), "cuda"))


def test_an_index_too_high_is_an_error(two_cards: None) -> None:
    """With the indices that there are."""
    with pytest.raises(UserError, match=r"no card cuda:2: torch sees 2") as caught:
        choose_place("cuda:2")
    assert "cuda:1" in caught.value.hint


def test_kernels_that_cannot_be_had(two_cards: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """For "cuda" that is an error; for "auto" a warning, and the processor."""

    def refuse(device: torch.device) -> None:
        raise UserError("The driver is too old.", "Update it.")

    monkeypatch.setattr(place, "check_card", refuse)
    with pytest.raises(UserError, match="too old"):
        choose_place("cuda")
    said: list[str] = []
    assert choose_place("auto", said.append) is CPU
    assert len(said) == 1 and "too old" in said[0] and "processor" in said[0]


def test_sending_to_where_it_is() -> None:
    """Costs nothing: the same tensor."""
    tensor = torch.ones(3)
    assert send(tensor, torch.device("cpu")) is tensor
