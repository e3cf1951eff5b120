"""Kernels of operations with extras (bias, activation, scales, masks), and what is wrong with their variants."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from wmmadiag.diagnose.engine import failing_evidence
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.subject.card import Card
from wmmadiag.subject.card_files.read import parse_card

FOLDER = Path(__file__).parent / "operations"


@dataclass(frozen=True)
class Wrong:
    """A right kernel with one text replaced.

    Attributes:
        base: stem of the right kernel's source and card.
        old, new: a text that stands once in the source, and what is there instead.
        hypothesis: that must claim it; words: what its sentence must hold.
        line: a text of the line that must be named, in the wrong source.
        card: (old, new) in the card, for cases that the mistake needs.
    """

    base: str
    old: str
    new: str
    hypothesis: str
    words: str
    line: str
    card: tuple[str, str] = ("", "")


_ACT = "act(alpha * tile[r][c] + shift)"
_WIDE = ("M = 96\nN = 64", "M = 64\nN = 96")
WRONG = {
    "bias_unused": Wrong("linear", "+ shift", "+ 0.0f * shift", "epilogue", "bias is not added", "0.0f * shift"),
    "bias_gone": Wrong("linear", " + shift", "", "epilogue", "bias is not added", "act(alpha"),
    "bias_twice": Wrong("linear", "+ shift", "+ 2 * shift", "epilogue", "added twice", "2 * shift"),
    "bias_by_row": Wrong(
        "linear", "b[col0 + c]", "b[row0 + r]", "index-arithmetic", "by the row", "b[row0 + r]", _WIDE
    ),
    "bias_in_tile": Wrong("linear", "b[col0 + c]", "b[c]", "index-arithmetic", "inside its tile of 32", "b[c]"),
    "bias_before_alpha": Wrong(
        "linear", _ACT, "act(alpha * (tile[r][c] + shift))", "epilogue", "before the sum is multiplied", "+ shift"
    ),
    "bias_after_act": Wrong(
        "linear", _ACT, "act(alpha * tile[r][c]) + shift", "epilogue", "before the bias", "+ shift"
    ),
    "no_activation": Wrong(
        "linear", _ACT, "alpha * tile[r][c] + shift", "epilogue", "(gelu) is not applied", "tile[r][c] + shift"
    ),
    "other_activation": Wrong(
        "linear", "0.5f * x * (1.0f + erff(x * 0.70710678f))", "x / (1.0f + __expf(-x))", "epilogue", "silu", "__expf"
    ),
    "scale_forgotten": Wrong(
        "dequantised", "sx[row + i] * sw[col + j]", "sw[col + j]", "epilogue", "scale_a is not applied", "out[(row"
    ),
    "scale_by_column": Wrong(
        "dequantised", "sx[row + i]", "sx[row + j]", "index-arithmetic", "inside a tile of 16", "sx[row + j]"
    ),
    "scales_exchanged": Wrong(
        "dequantised", "sw[col + j]", "sw[row + i]", "index-arithmetic", "by the row", "sw[row + i]"
    ),
    "relu_before_bias": Wrong(
        "dequantised",
        "* scale;\n",
        "* scale;\n        value = fmaxf(value, 0.f);\n",
        "epilogue",
        "added, too",
        "+= cached",
    ),
    "score_bias_unused": Wrong(
        "biased_attention",
        "+ __half2float(bias_row[j])",
        "+ 0 * __half2float(bias_row[j])",
        "score-terms",
        "bias is not added",
        "bias_row[j]",
    ),
    "score_bias_gone": Wrong(
        "biased_attention", " + __half2float(bias_row[j])", "", "score-terms", "bias is not added", "= capped("
    ),
    "score_bias_scaled": Wrong(
        "biased_attention",
        "+ __half2float(bias_row[j])",
        "+ scale * __half2float(bias_row[j])",
        "score-terms",
        "before the scores are multiplied",
        "bias_row[j]",
    ),
    "score_bias_first_row": Wrong(
        "biased_attention",
        "bias_row[j]",
        "rel_bias[(size_t)(h * nq) * nk + j]",
        "index-arithmetic",
        "in its first row",
        "rel_bias[",
    ),
    "score_bias_first_head": Wrong(
        "biased_attention", "(h * nq + row0 + r)", "(row0 + r)", "index-arithmetic", "in head 0", "bias_row ="
    ),
    "no_softcap": Wrong(
        "biased_attention", "return cap * tanhf(x / cap)", "return x", "score-terms", "is not applied", "capped(s[r][j]"
    ),
    "softcap_before_scale": Wrong(
        "biased_attention",
        "capped(s[r][j] * scale, cap)",
        "capped(s[r][j], cap) * scale",
        "score-terms",
        "before the scale",
        "tanhf",
    ),
    "lengths_ignored": Wrong(
        "biased_attention",
        "if (j >= visible) x = -INFINITY;",
        "",
        "tail-masking",
        "lengths are ignored",
        "float x = capped(",
    ),
    "lengths_too_long": Wrong(
        "biased_attention", "j >= visible", "j > visible", "tail-masking", "first key past", "j > visible"
    ),
    "lengths_of_first": Wrong(
        "biased_attention", "kv_lens[b]", "kv_lens[0]", "index-arithmetic", "of batch 0", "kv_lens[0]"
    ),
    "no_window": Wrong(
        "windowed_attention", "j > i || j < i - window", "j > i", "causal-mask", "window is missing", "j > i"
    ),
    "window_too_short": Wrong(
        "windowed_attention", "j < i - window", "j <= i - window", "causal-mask", "off by -1", "j <= i - window"
    ),
    "no_alibi": Wrong(
        "windowed_attention", " - slope * (i - j)", "", "score-terms", "ALiBi is not added", "float x = s[r][j]"
    ),
    "alibi_away": Wrong(
        "windowed_attention", "- slope * (i - j)", "+ slope * (i - j)", "score-terms", "wrong sign", "+ slope * (i - j)"
    ),
    "alibi_of_batch": Wrong(
        "windowed_attention", "slopes[h]", "slopes[b]", "index-arithmetic", "of the batch", "slopes[b]"
    ),
    "bias_of_rows_tile": Wrong(
        "bias_first", "bias[n0 + i % BN]", "bias[m0 + i % BN]", "index-arithmetic", "in the tile of the row", "bias[m0"
    ),
    "silu_left_out": Wrong(
        "bias_first", "x / (1.f + __expf(-x))", "x", "epilogue", "(silu) is not applied", "acc.x[t] = x;"
    ),
    "window_strict": Wrong(
        "padded_window", "row - col > W", "row - col >= W", "causal-mask", "off by -1", "row - col >= W"
    ),
    "window_by_blocks": Wrong(
        "padded_window", "row - col > W || ", "", "causal-mask", "not masked inside tiles", "if (col > row"
    ),
    "padding_inverted": Wrong(
        "padded_window", "|| pad[b * S + col]", "|| !pad[b * S + col]", "causal-mask", "inverted", "!pad["
    ),
    "padding_of_first": Wrong(
        "padded_window", "pad[b * S + col]", "pad[col]", "index-arithmetic", "in batch 0", "pad[col]"
    ),
}


def right_card(base: str) -> Card:
    """The card of a right kernel."""
    path = FOLDER / f"{base}.toml"
    return parse_card(path.read_text(), path)


def wrong_card(name: str, folder: Path) -> Card:
    """The card of a wrong kernel, whose files are written to a folder."""
    one = WRONG[name]
    source, card = (FOLDER / f"{one.base}{ending}" for ending in (".cu", ".toml"))
    text, settings = source.read_text(), card.read_text()
    assert text.count(one.old) == 1, one.old
    assert one.card[0] in settings
    (folder / source.name).write_text(text.replace(one.old, one.new))
    path = folder / card.name
    path.write_text(settings.replace(*one.card) if one.card[0] else settings)
    return parse_card(path.read_text(), path)


def wrong_evidence(name: str, folder: Path) -> Evidence:
    """What a diagnosis of a wrong kernel begins with."""
    evidence = failing_evidence(wrong_card(name, folder))
    assert evidence is not None
    return evidence
