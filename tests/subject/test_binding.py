from __future__ import annotations

import numpy as np
import pytest

from wmmadiag.errors import ConfigurationError
from wmmadiag.subject.binding import bind
from wmmadiag.subject.card_files.read import parse_card
from wmmadiag.subject.storage import is_poison
from wmmadiag.subject.symbols import rendered_entry, rendered_macros

HEAD = 'format = 1\nsource = "k.cu"\nentry = "k<{D}, {BM}>"\nmacros = { BM = "{S // 2}", FAST = true, T = "half" }\n'
TAIL = '\n[launch]\ngrid = ["ceil_div(S, BM)", 2]\nblock = [32, 4]\nshared = "BM*4"\n'
SIZES = "\n[[cases]]\nB = 2\nH = 3\nS = 16\nD = 8\n"


def card(tmp_path, arguments, computes='operation = "attention"', cases=SIZES):
    (tmp_path / "k.cu").write_text("")
    text = HEAD + arguments + TAIL + f"\n[computes]\n{computes}\n" + cases
    return parse_card(text, tmp_path / "k.toml")


def bound(tmp_path, arguments, computes='operation = "attention"', cases=SIZES, **options):
    made = card(tmp_path, arguments, computes, cases)
    return bind(made, made.cases[0], made.variants[0], **options)


def argument(role, dtype="f16", more=""):
    return f'[[arguments]]\nrole = "{role}"\ndtype = "{dtype}"\n{more}\n'


QKVO = "".join(argument(role) for role in "qkvo")


def test_launch_scalars_and_symbols(tmp_path):
    scalars = '[[arguments]]\nname = "n"\ndtype = "int"\nvalue = "S"\n'
    scalars += '[[arguments]]\nname = "s"\ndtype = "bf16"\nvalue = "1/3"\n'
    made = bound(tmp_path, QKVO + scalars)
    launch = made.launch
    assert (launch.grid, launch.block, launch.shared_bytes) == ((2, 2, 1), (32, 4, 1), 32)
    assert launch.names == ("q", "k", "v", "o", "n", "s")
    assert launch.arguments[4] == np.int32(16)
    assert launch.arguments[4].dtype == np.int32
    assert launch.arguments[5].dtype.name == "bfloat16"
    assert float(launch.arguments[5]) == 0.333984375
    assert made.symbols["BM"] == 8
    assert made.parameters["scale"] == pytest.approx(8**-0.5, rel=1e-15)


def test_macros_and_entry_are_filled_in(tmp_path):
    made = card(tmp_path, QKVO)
    assert rendered_macros(made, made.cases[0], made.variants[0]) == {"BM": "8", "FAST": "1", "T": "half"}
    assert rendered_entry(made, made.cases[0], made.variants[0]) == "k<8, 8>"


@pytest.mark.parametrize(("more", "strides", "count"), [
    ("", (384, 128, 8, 1), 768),
    ('layout = "BSHD"', (384, 8, 24, 1), 768),
    ('layout = "SBHD"', (24, 8, 48, 1), 768),
    ("pad = { D = 8 }", (768, 256, 16, 1), 1536),
    ("pad = { 3 = 2 }", (480, 160, 10, 1), 960),
    ('strides = ["400", "D", "3*D", 1]\nsize = 1000', (400, 8, 24, 1), 1000),
    ('shape = ["H", "S", "D"]', (128, 8, 1), 384),
    ('layout = "SHD"', (8, 24, 1), 384),
])  # fmt: skip
def test_layouts(tmp_path, more, strides, count):
    cases = SIZES.replace("B = 2", "B = 1") if strides[:-1] and len(strides) == 3 else SIZES
    same = "".join(argument(role, more=more) for role in "qkvo")
    made = bound(tmp_path, same, cases=cases)
    assert made.argument_of("q").placements["q"].strides == strides
    assert made.argument_of("q").storage.size == count


def test_packed_qkv(tmp_path):
    made = bound(tmp_path, argument("qkv", more='layout = "BS3HD"') + argument("o"))
    inputs = made.inputs()
    assert made.argument_of("q") is made.argument_of("v")
    packed = made.argument_of("q").storage.reshape(2, 16, 3, 3, 8)
    for index, role in enumerate("qkv"):
        assert inputs[role].shape == (2, 3, 16, 8)
        np.testing.assert_array_equal(inputs[role], packed[:, :, index].transpose(0, 2, 1, 3))
    assert not is_poison(packed, made.argument_of("q").spec.element, 0).any()


def test_outputs_and_padding_are_poisoned_each_in_its_own_way(tmp_path):
    made = bound(tmp_path, argument("q", more="pad = { D = 4 }") + argument("k") + argument("v") + argument("o", "f32"))
    q, o = made.argument_of("q"), made.argument_of("o")
    assert np.isnan(q.storage.reshape(-1, 12)[:, 8:]).all()
    assert not np.isnan(made.inputs()["q"]).any()
    assert is_poison(o.storage, o.spec.element, 3).all()
    assert not is_poison(o.storage, o.spec.element, 2).any()
    zeroed = bound(tmp_path, argument("q", more='pad = { D = 4 }\npadding = "zero"') + argument("k") + argument("v")
                   + argument("o", more='initial = "zero"'))  # fmt: skip
    assert (zeroed.argument_of("q").storage.reshape(-1, 12)[:, 8:] == 0).all()
    assert (zeroed.argument_of("o").storage == 0).all()


def test_seed_distribution_and_overrides(tmp_path):
    one = bound(tmp_path, QKVO)
    again = bound(tmp_path, QKVO)
    other = bound(tmp_path, QKVO, seed=1)
    np.testing.assert_array_equal(one.inputs()["k"], again.inputs()["k"])
    assert (one.inputs()["k"] != other.inputs()["k"]).any()
    assert (one.seed, other.seed, one.distribution) == (0, 1, "normal")
    integers = bound(tmp_path, QKVO, inputs="small_integers")
    assert (integers.inputs()["q"] == np.rint(integers.inputs()["q"])).all()
    mixed = bound(tmp_path, argument("q", more='inputs = "small_integers"') + "".join(argument(r) for r in "kvo"))
    assert (mixed.inputs()["q"] == np.rint(mixed.inputs()["q"])).all()
    np.testing.assert_array_equal(mixed.inputs()["k"], one.inputs()["k"])


def test_grouped_heads_and_unequal_lengths(tmp_path):
    cases = SIZES + "Hkv = 1\nSkv = 40\ncausal = true\n"
    made = bound(tmp_path, QKVO, 'operation = "attention"\nalignment = "bottom-right"', cases)
    assert made.inputs()["k"].shape == (2, 1, 40, 8)
    assert made.parameters["causal"] is True
    lengths = bound(tmp_path, QKVO + argument("lengths", "s32"), 'operation = "attention"', cases).inputs()["lengths"]
    assert 30 <= lengths.max() < 40 and lengths.min() < lengths.max()  # loops over keys take their last turn
    with pytest.raises(ConfigurationError, match="2 is no divisor of 3"):
        bound(tmp_path, QKVO, cases=SIZES + "Hkv = 2\n")


@pytest.mark.parametrize(("flags", "a", "b"), [
    ("", (6, 10), (10, 4)), ("transpose_a = true", (10, 6), (10, 4)), ("transpose_b = true", (6, 10), (4, 10)),
    ('transpose_b = "T"', (6, 10), (4, 10)),
])  # fmt: skip
def test_gemm_shapes(tmp_path, flags, a, b):
    cases = "\n[[cases]]\nM = 6\nN = 4\nK = 10\nS = 16\nD = 8\nT = 1\n"
    made = bound(tmp_path, "".join(argument(r) for r in "abd"), f'operation = "gemm"\n{flags}', cases)
    assert made.inputs()["a"].shape == a
    assert made.inputs()["b"].shape == b
    assert made.outputs()["d"].shape == (6, 4)


def test_workspace_and_null_pointer(tmp_path):
    extra = argument("workspace", "f32", 'size = "S*D"') + '[[arguments]]\nname = "mask"\ndtype = "u64"\nvalue = 0\n'
    made = bound(tmp_path, QKVO + extra)
    assert made.launch.arguments[4].size == 128
    assert made.launch.arguments[5] == np.uint64(0)


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ("[0, 5, 'S', 'B + H']", [0, 5, 16, 5]),
        ("'(3*i + S) % 4'", [0, 3, 2, 1]),
        ("7", [7, 7, 7, 7]),
    ],
)
def test_given_values(tmp_path, given, values):
    lengths = argument("lengths", "s32", f"shape = [4]\nvalues = {given}\n") + argument("out", "f32", "shape = [1]\n")
    made = bound(tmp_path, lengths, 'operation = "python"\npython = "r.py:f"', inputs="indexed")
    assert made.inputs()["lengths"].tolist() == values


@pytest.mark.parametrize("length", [16, 8, 16])
def test_given_values_are_kept_for_the_same_symbols_alone(tmp_path, length):
    given = argument("lengths", "s32", "shape = [2]\nvalues = 'i + S'\n") + argument("out", "f32", "shape = [1]\n")
    cases = SIZES.replace("16", str(length))
    made = bound(tmp_path, given, 'operation = "python"\npython = "r.py:f"', cases)
    assert made.inputs()["lengths"].tolist() == [length, length + 1]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("values = [1, 2, 3]", "4 elements, but 3 values"),
        ("values = 'S / 3'", "not an integer"),
        ("values = 300", "cannot hold"),
        ("values = 'nobody'", "nobody"),
        ("values = 1\ninputs = 'normal'", "exclude each other"),
        ("direction = 'inout'\ninitial = 'zero'", "begins with its inputs"),
    ],
)
def test_wrong_values_are_refused(tmp_path, more, message):
    lengths = argument("lengths", "u8", f"shape = [4]\n{more}\n") + argument("out", "f32", "shape = [1]\n")
    with pytest.raises(ConfigurationError, match=message) as raised:
        bound(tmp_path, lengths, 'operation = "python"\npython = "r.py:f"')
    assert raised.value.place is not None and raised.value.place.line > 1


def test_storage_of_what_is_read_and_of_what_is_written_says_so(tmp_path):
    both = '[[arguments]]\nname = "c"\ndtype = "f32"\n%scontains = [{ role = "c" }, { role = "d" }]\n'
    wanted = "holds what is read .'c'. and what is written .'d'."
    with pytest.raises(ConfigurationError, match=wanted) as raised:
        bound(tmp_path, argument("a") + argument("b") + both % "", 'operation = "gemm"', GEMM_SIZES % 1)
    assert 'direction = "inout"' in raised.value.hint
    told = both % 'direction = "inout"\n'
    made = bound(tmp_path, argument("a") + argument("b") + told, 'operation = "gemm"', GEMM_SIZES % 1)
    assert made.argument_of("d").spec.direction == "inout"


GEMM_SIZES = "\n[[cases]]\nbatch = %d\nM = 6\nN = 10\nK = 4\nS = 8\nD = 8\n"


@pytest.mark.parametrize(("batch", "more", "shape", "strides", "count"), [
    (1, "", (1, 10), (0, 1), 10),
    (3, "", (1, 1, 10), (0, 0, 1), 10),
    (3, 'layout = "M"', (1, 6, 1), (0, 1, 0), 6),
    (3, 'layout = "BN"', (3, 1, 10), (10, 0, 1), 30),
    (1, 'layout = "MN"\npad = { N = 2 }', (6, 10), (12, 1), 72),
    (1, 'shape = ["N"]', (10,), (1,), 10),
    (1, "strides = [3]", (1, 10), (0, 3), 28),
])  # fmt: skip
def test_a_bias_is_spread_over_the_axes_that_it_lacks(tmp_path, batch, more, shape, strides, count):
    arguments = "".join(argument(r) for r in "abd") + argument("bias", "f32", more)
    made = bound(tmp_path, arguments, 'operation = "gemm"', GEMM_SIZES % batch)
    placement = made.argument_of("bias").placements["bias"]
    assert (placement.shape[-len(shape) :], made.argument_of("bias").storage.size) == (shape, count)
    steps = [step for step, extent in zip(placement.strides[-len(shape) :], shape, strict=True) if extent > 1]
    assert steps == [step for step, extent in zip(strides, shape, strict=True) if extent > 1]


@pytest.mark.parametrize(("more", "message"), [
    ('shape = ["K"]', "cannot be spread over 6×10"),
    ('layout = "K"', "does not fit the axes B, M, N"),
    ("strides = [1, 2]", "2 strides for 1 dimensions"),
])  # fmt: skip
def test_a_bias_that_fits_no_result(tmp_path, more, message):
    arguments = "".join(argument(r) for r in "abd") + argument("bias", "f32", more)
    with pytest.raises(ConfigurationError, match=message):
        bound(tmp_path, arguments, 'operation = "gemm"', GEMM_SIZES % 1)
