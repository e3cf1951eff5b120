"""docs/cards.md says what cards may hold: its example is a card, and its tables are those that cards are read with."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cards_page import page

from wmmadiag.errors import ConfigurationError
from wmmadiag.subject import card_keys
from wmmadiag.subject.binding import bind
from wmmadiag.subject.card_files.read import parse_card

ROOT = Path(__file__).parents[2]


def example() -> str:
    found = re.search(r"```toml\n(.*?)```", page(), re.DOTALL)
    assert found is not None
    return found[1]


def test_the_page_is_current():
    assert (ROOT / "docs/cards.md").read_text("utf-8") == page(), "run python scripts/pages"


def test_the_example_is_a_card(tmp_path):
    (tmp_path / "attn.cu").write_text("")
    card = parse_card(example(), tmp_path / "attn.toml")
    small = bind(card, card.case("small"), card.variants[0])
    assert small.launch.grid == (2, 3, 2) and small.launch.block == (128, 1, 1)
    assert small.launch.shared_bytes == 2 * 64 * 72 * 3
    assert small.symbols["causal"] == 0 and bind(card, card.case("causal"), card.variants[0]).symbols["causal"] == 1
    k, v = card.arguments[1].views
    assert (k.role, v.role, v.offset) == ("k", "v", "H*D")


@pytest.mark.parametrize("key", card_keys.CARD)
def test_every_key_of_the_page_is_read(tmp_path, key):
    """A key with a value of the wrong type is refused for its type, never as unknown."""
    (tmp_path / "attn.cu").write_text("")
    tables = re.split(r"^(?=\[)", re.sub(rf"^{key} = .*\n", "", example(), flags=re.MULTILINE), flags=re.MULTILINE)
    text = "".join(table for table in tables if not re.match(rf"\[+{key}\]", table))
    with pytest.raises(ConfigurationError) as raised:
        parse_card(f"{key} = 2026-01-01\n{text}", tmp_path / "attn.toml")
    assert f"'{key}' must be" in str(raised.value)
