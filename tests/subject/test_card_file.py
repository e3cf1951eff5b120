from __future__ import annotations

import random
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wmmadiag.errors import ConfigurationError
from wmmadiag.subject.binding import bind
from wmmadiag.subject.card_files.places import key_lines
from wmmadiag.subject.card_files.read import load_card, parse_card

CARD = """\
format = 1
source = "kernel.cu"
entry = "attn<{D}>"
macros = { BLOCK_M = 32, T = "half", HD = "{D}" }

[variants.scalar]
macros = { USE_WMMA = 0 }
[variants.wmma]
macros = { USE_WMMA = 1 }

[[arguments]]
role = "q"
dtype = "f16"
[[arguments]]
role = "k"
dtype = "f16"
[[arguments]]
role = "v"
dtype = "half"
[[arguments]]
role = "o"
dtype = "f32"
[[arguments]]
name = "S"
dtype = "int"
value = "S"

[launch]
grid = ["ceil_div(S, BLOCK_M)", "B*H"]
block = 128
shared = "2*HD*BLOCK_M"

[computes]
operation = "attention"

[[cases]]
name = "small"
B = 1
H = 2
S = 64
D = 64
[[cases]]
name = "causal"
B = 1
H = 2
S = 100
D = 32
causal = true
seed = 7
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "kernel.cu").write_text("__global__ void attn() {}\n")
    return tmp_path


def parse(folder, text):
    return parse_card(text, folder / "kernel.toml")


def test_loads_a_card(folder):
    (folder / "kernel.toml").write_text(CARD)
    card = load_card(folder / "kernel.toml")
    assert [variant.name for variant in card.variants] == ["scalar", "wmma"]
    assert [argument.direction for argument in card.arguments] == ["in", "in", "in", "out", "in"]
    assert card.case("causal").seed == 7
    assert card.case("causal").symbols["causal"] == 1
    assert card.name == folder.name
    assert card.arguments[3].place.line == 20


@pytest.mark.parametrize(("old", "new", "message"), [
    ("format = 1", "format = 9", "format 9"),
    ("block = 128", "blok = 128", "did you mean 'block'"),
    ('role = "q"', 'role = "queries"', "no role 'queries'"),
    ('dtype = "half"', 'dtype = "fp61"', "did you mean 'fp16'"),
    ('operation = "attention"', 'operation = "atention"', "did you mean 'attention'"),
    ('operation = "attention"', 'operation = "attention"\nscal = 1', "did you mean 'scale'"),
    ("[computes]", "[computs]", "did you mean 'computes'"),
    ('source = "kernel.cu"', 'source = "other.cu"', "no source file"),
    ('source = "kernel.cu"', "source = 3", "must be a string, but is an integer"),
    ('role = "o"', 'name = "w"\nrole = "v"', "more than one argument has the role 'v'"),
    ("block = 128", "block = [1,2,3,4]", "one to three dimensions"),
    ("block = 128", "block = [[1]]", "must be a number or an expression"),
    ("seed = 7", "seed = -7", "between 0 and"),
    ("seed = 7", "seed = 1.5", "must be an integer, but is a number"),
    ("seed = 7", "tolerence = 1", "did you mean 'tolerance'"),
    ("seed = 7", "tolerance = { atol = -1 }", "not negative"),
    ("seed = 7", 'inputs = "gaussian"', "'inputs' cannot be 'gaussian'"),
    ("seed = 7", "inf-inf = 1", "cannot be a symbol"),
    ("seed = 7", "x = 1979-05-27", "is a date or time"),
    ('name = "causal"', 'name = "small"', "two cases named 'small'"),
    ('value = "S"', 'value = "S"\nshape = 3', "unknown key 'shape' in arguments[4]"),
    ('dtype = "f32"', 'dtype = "f32"\nlayout = "BBHD"', "names an axis twice"),
    ('dtype = "f32"', 'dtype = "f32"\nshape = ["S"]\nstrides = [1, 2]', "2 strides for 1 dimensions"),
    ("format = 1", "format = 1\nformat = 1", "not valid TOML"),
    ("[launch]", "[launch", "not valid TOML"),
    ('entry = "attn<{D}>"', 'entry = "TODO"', "still to be filled in"),
    ('dtype = "f32"', 'dtype = "f32"\nshape = ["TODO"]', "'shape' is still to be filled in"),
    ('grid = ["ceil_div(S, BLOCK_M)", "B*H"]', 'grid = "TODO"', "still to be filled in"),
])  # fmt: skip
def test_mistakes_are_told_with_their_line(folder, old, new, message):
    assert old in CARD
    text = CARD.replace(old, new, 1)
    with pytest.raises(ConfigurationError) as caught:
        parse(folder, text)
    assert message in str(caught.value)
    assert caught.value.place is not None
    told = text.split("\n")[caught.value.place.line - 1]
    start = "[[arguments]]" if "more than one argument" in message else new.split("\n")[-1][:10]
    assert told.startswith(start), str(caught.value)


@pytest.mark.parametrize(("old", "new", "message"), [
    ("S = 100", "S = -5", "is -5; it must be at least 0"),
    ("S = 100", 'S = "Tx"', "the symbol 'Tx' is not defined"),
    ("S = 100", 'S = "D"\nE = "S"', ""),
    ("S = 100", 'S = "Z"\nZ = "S"', "depend on each other"),
    ("S = 100", "S = 100000000", "need more than 1024 MiB"),
    ("S = 100", "S = 100000000000000000", "elements"),
    ("S = 100", "S = 1e300", "too large|not an integer|elements|must|MiB"),
    ("D = 32", "D = 0.5", "not an integer"),
    ("block = 128", "block = 2048", "the limit is 1024"),
    ("block = 128", "block = [64, 64]", "4096 threads"),
    ("block = 128", 'block = "S/64"', "not an integer"),
    ("block = 128", "block = 0", "at least 1"),
    ('shared = "2*HD*BLOCK_M"', "shared = -4", "at least 0"),
    ('shared = "2*HD*BLOCK_M"', 'shared = "2*T"', "the symbol 'half' is not defined"),
    ('dtype = "int"', 'dtype = "s8"\nname2 = 1', "unknown key"),
    ('value = "S"', "value = 3000000000", "s32 cannot hold"),
    ('role = "k"', 'role = "k"\nshape = ["B", "H", "S", "D + 1"]', "differs from axis -1"),
    ('role = "k"', 'role = "k"\nshape = ["B", "S", "D"]', "differs from"),
    ('role = "k"', 'role = "k"\nlayout = "BSHX"', "does not fit the axes"),
    ('role = "k"', 'role = "k"\npad = { Z = 8 }', "unknown axis 'Z'"),
    ('role = "o"', 'role = "o"\nstrides = [0, 0, 64, 1]', "overlap"),
    ('role = "o"', 'role = "o"\nsize = 10', "reach element"),
    ('role = "o"', 'role = "o"\nstrides = [1, -1, 64, 1]', "at least 0"),
])  # fmt: skip
def test_mistakes_that_only_a_case_shows(folder, old, new, message):
    assert old in CARD
    changed = CARD.replace(old, new, 1)
    if message == "":
        card = parse(folder, changed)
        bind(card, card.cases[1], card.variants[0])
        return
    with pytest.raises(ConfigurationError, match=message) as caught:
        card = parse(folder, changed)
        for case in card.cases:
            bind(card, case, card.variants[0])
    assert caught.value.place is not None


def test_lacking_parts_are_named(folder):
    for section in ("source", "entry", "arguments", "launch", "computes"):
        lines = CARD.splitlines(keepends=True)
        text = CARD.replace(section, "not_" + section) if section == "nothing" else "".join(lines)
        start = {"source": 'source = "kernel.cu"\n', "entry": 'entry = "attn<{D}>"\n'}.get(section)
        if start is None:
            continue
        with pytest.raises(ConfigurationError, match=f"lacks '{section}'"):
            parse(folder, text.replace(start, ""))
    with pytest.raises(ConfigurationError, match="not a kernel card"):
        parse(folder, "[project]\nname = 'x'\n")
    with pytest.raises(ConfigurationError, match="no cases"):
        parse(folder, CARD[: CARD.index("[[cases]]")])


def test_unreadable_files(folder):
    with pytest.raises(ConfigurationError, match="cannot read the card"):
        load_card(folder / "none.toml")
    (folder / "binary.toml").write_bytes(b"format = 1\n\xff\xfe\n")
    with pytest.raises(ConfigurationError, match=r"binary.toml:2: .*not UTF-8"):
        load_card(folder / "binary.toml")


def test_lines_of_keys():
    text = 'a = 1\n# c\n[t]\nb = """\nx = 1\n"""\nc = [\n  1, # one\n  { d = 2,\n e = "]}" } ]\n'
    text += "[[u]]\nv.w = 1\n[[u]]\n\"v\" = ''\n"
    lines = key_lines(text)
    assert lines[("a",)] == 1
    assert lines[("t", "b")] == 4
    assert lines[("t", "c", 0)] == 8
    assert lines[("t", "c", 1, "d")] == 9
    assert lines[("t", "c", 1, "e")] == 10
    assert lines[("u", 0, "v", "w")] == 12
    assert lines[("u", 1, "v")] == 14


FRAGMENTS = ["[", "]", "{", "}", '"', "'", "=", "[[cases]]",
             "1e999", "-1", '"S*"', "true", "\n", "[a.b]", "nan",
             "1979-05-27", '"{"', "#", ","]  # fmt: skip


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**9))
def test_damaged_cards_give_errors_not_crashes(folder, seed):
    rng = random.Random(seed)
    lines = CARD.split("\n")
    for _ in range(rng.randint(1, 4)):
        index = rng.randrange(len(lines))
        line = lines[index]
        kind = rng.randrange(4)
        if kind == 0:
            lines.pop(index)
        elif kind == 1:
            cut = rng.randint(0, len(line))
            lines[index] = line[:cut] + rng.choice(FRAGMENTS) + line[cut:]
        elif kind == 2 and "=" in line:
            values = ["3", "-1", '"x"', "[]", "{}", '["a"]', "true", "1e300", '""', "{ a = 1 }", "9223372036854775807"]
            lines[index] = line.split("=")[0] + "= " + rng.choice(values)
        else:
            lines.insert(index, rng.choice(lines))
    try:
        card = parse(folder, "\n".join(lines))
        for case in card.cases:
            bind(card, case, card.variants[0])
    except ConfigurationError as error:
        assert str(error)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=80))
def test_any_text_gives_an_error(folder, text):
    with pytest.raises(ConfigurationError):
        parse(folder, text)


def test_loading_a_card_needs_no_numpy():
    code = "import sys; import wmmadiag.subject.card_files.read; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("line", ['softcap = "inf"', "softcap = -5", "window_right = 1e30", "scale = nan"])
def test_parameters_that_no_kernel_can_have_are_refused_with_their_line(tmp_path, line):
    (tmp_path / "kernel.cu").write_text("")
    card = parse_card(CARD.replace('operation = "attention"', f'operation = "attention"\n{line}'), tmp_path / "k.toml")
    with pytest.raises(ConfigurationError, match=f"computes.{line.split()[0]} is") as raised:
        bind(card, card.cases[0], card.variants[0])
    assert raised.value.place is not None
