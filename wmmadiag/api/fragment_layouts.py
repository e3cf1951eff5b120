"""`wmmadiag.fragment_map`: the layout of any fragment, as data with pictures."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wmmadiag.api.fragment_forms import FragmentForm, find
from wmmadiag.errors import ConfigurationError
from wmmadiag.fragments import FragmentMap, ldmatrix_map, memory_access, mma_map, wmma_map
from wmmadiag.fragments.memory_access import AccessFootprint, footprint
from wmmadiag.fragments.shared_requests import ROW, SharedRequest, fragment_requests, matrix_rows
from wmmadiag.results.fragment_layout import BankPass, FragmentLayout, Holder, Memory

DEFAULT_ARCH = "sm_90"
_AXES = {"a": ("m", "k"), "b": ("k", "n"), "c": ("m", "n"), "d": ("m", "n"), "": ("row", "column")}
_SPACES = ("shared", "global")
_MOST = 2**31 - 1  # of a base or a leading dimension
_ISA_ALIGNMENT = 32  # PTX ISA 9.0, wmma.load: of the base, bytes
_ISA_LDM = 16  # ... of the leading dimension, bytes
_TRIED = 64  # 16-byte steps of the leading dimension among which one without conflicts is looked for


def fragment_map(
    shape: str,
    type: str = "",
    matrix: str = "",
    *,
    layout: str = "",
    ldm: int | None = None,
    base: int = 0,
    arch: str = DEFAULT_ARCH,
    space: str = "shared",
) -> FragmentLayout:
    """Which lane holds which element of a fragment, where each lies in memory, and what that costs in banks.

    Args:
        shape: of `wmma` "m16n16k16"; of `mma.sync` "mma.m16n8k16"; "ldmatrix.x4", "ldmatrix.x2.trans", "stmatrix.x1".
        type: element type of this matrix: "f16", or a C++ name such as "half".
        matrix: "a", "b", "c" (accumulator, loaded) or "d" (stored).
        layout: "row" or "col". Default: row; col for B of `mma.sync`.
        ldm: elements from one memory line to the next. Default: the lines lie side by side.
        base: address of element (0, 0) in bytes.
        arch: target.
        space: "shared" or "global"; banks are counted in shared memory.

    Returns:
        A `FragmentLayout`: a picture in a notebook, text with `print`, data with `as_data()`.

    Raises:
        ConfigurationError: a name that does not exist (the hint has the nearest one), or a number out of range.
        UnsupportedError: the architecture lacks it, or its map is not known.

    Examples:
        >>> import wmmadiag
        >>> layout = wmmadiag.fragment_map("m16n16k16", "f16", "a", layout="row", ldm=64)
        >>> layout.cells[0][1][2][0]
        Holder(lane=5, element=0)
        >>> layout.memory.passes, layout.memory.fewest, layout.memory.better_ldm
        (32, 4, 72)
    """
    form = find(shape, type, matrix, layout, arch)
    if space not in _SPACES:
        raise ConfigurationError(f"there is no space '{space}'", hint=f"one of {', '.join(_SPACES)}")
    if form.instruction == "mma":
        if ldm is not None or base:
            raise ConfigurationError(
                "mma.sync takes its operands from registers: it has neither base nor leading dimension",
                hint="ldmatrix loads them: wmmadiag fragment ldmatrix.x4 --ldm 72",
            )
        return _described(form, arch, _map(form, arch), None, ())
    _in_range("base", base, 0)
    if ldm is not None:
        _in_range("leading dimension", ldm, 1)
    if form.instruction in ("ldmatrix", "stmatrix"):
        if space != "shared":
            raise ConfigurationError(f"{form.instruction} reaches shared memory only", hint="leave --space away")
        return _matrices(form, arch, ldm, base)
    return _wmma(form, arch, ldm, base, space)


def _in_range(what: str, value: int, least: int) -> None:
    if not least <= value <= _MOST:
        raise ConfigurationError(f"a {what} of {value} is out of range", hint=f"{least} to {_MOST}")


def _map(form: FragmentForm, arch: str) -> FragmentMap:
    if form.instruction == "wmma":
        return wmma_map(form.shape, form.matrix, form.type, arch)
    if form.instruction == "mma":
        choice = form.shape == "m8n8k4" and form.type != "f64"
        return mma_map(form.shape, form.matrix, form.type, form.layout if choice else "")
    return ldmatrix_map(form.count, form.trans)


def _wmma(form: FragmentForm, arch: str, ldm: int | None, base: int, space: str) -> FragmentLayout:
    fragment = _map(form, arch)
    width = fragment.shape[1] if form.layout == "row" else fragment.shape[0]
    step = ldm if ldm is not None else width
    access = memory_access(form.shape, form.matrix, form.type, form.layout, space)
    where = footprint(fragment, form.layout, step, access)
    bits = fragment.element_bits
    notes = []
    if step < width:
        notes.append(f"ldm {step} is less than a line's {width} elements: lines overlap")
    if step * bits % (8 * _ISA_LDM):
        per = 8 * _ISA_LDM // bits
        cut = access.ldm_unit > 1 and step % access.ldm_unit != 0
        effect = (
            f"the chip cuts it to multiples of {access.ldm_unit}: lines come from elsewhere, as drawn"
            if cut
            else "undefined by the PTX ISA"
        )
        notes.append(f"ldm {step} is no multiple of {per} elements (16 bytes): {effect}")
    dies = _misaligned(base, where, access.granule)
    if dies:
        notes.append(f"{dies} is not aligned to {access.granule} bytes: the chip stops with 'misaligned address'")
    elif base % _ISA_ALIGNMENT:
        notes.append(
            f"the PTX ISA asks for a base aligned to {_ISA_ALIGNMENT} bytes; the chip that was measured needs "
            f"{access.granule} here"
        )
    if fragment.used_registers < fragment.registers:
        notes.append(f"x[{fragment.used_registers * fragment.per_register}] and later elements repeat the first ones")

    def requests(some: AccessFootprint) -> list[SharedRequest]:
        return fragment_requests(fragment, some, form.matrix, form.layout, base)

    banks: tuple[BankPass, ...] = ()
    better = 0
    if space != "shared":
        notes.append("banks are those of shared memory: nothing is counted here")
    elif not dies:
        banks = _passes(requests(where))
        if max(one.passes for one in banks) > 1:
            grain = max(1, 8 * _ISA_LDM // bits)
            first = (max(step, width - 1) // grain + 1) * grain
            for one in range(first, first + _TRIED * grain, grain):
                if all(p.passes == 1 for p in _passes(requests(footprint(fragment, form.layout, one, access)))):
                    better = one
                    break
    memory = Memory(
        base, step, form.layout, space, tuple(base + int(line) for line in where.lines), where.line_bytes,
        (_rows(where.bits + 8 * base),), banks, better,
    )  # fmt: skip
    return _described(form, arch, fragment, memory, tuple(notes))


def _misaligned(base: int, where: AccessFootprint, granule: int) -> str:
    """What is not aligned to the granule; "" if nothing is."""
    if base % granule:
        return f"base {base}"
    wrong = np.nonzero((where.lines + base) % granule)[0]
    return f"line {wrong[0]}" if wrong.size else ""


def _matrices(form: FragmentForm, arch: str, ldm: int | None, base: int) -> FragmentLayout:
    """`ldmatrix` and `stmatrix`, with the rows of a tile of 16-bit elements as their addresses."""
    fragment = _map(form, arch)
    count = fragment.tiles
    step = ldm if ldm is not None else 8 * max(1, count // 2)
    starts = _row_addresses(count, step, base)
    place = "tile[lane % 16][lane / 16 * 8]" if count == 4 else "tile[lane][0]"
    notes = [f"addresses: lane l gives &{place} of a tile of {step} 16-bit elements per row; the instruction takes any"]
    if count < 4:
        notes.append(f"the addresses of lanes {8 * count} to 31 are not read")
    bad = np.nonzero(starts % ROW)[0]
    if bad.size:
        notes.append(f"lane {bad[0]}'s address is not aligned to 16 bytes: the chip stops with 'misaligned address'")
    if step < 8 * max(1, count // 2):
        notes.append(f"ldm {step} is less than the tile's {8 * max(1, count // 2)} elements: rows overlap")
    what = "LDSM" if form.instruction == "ldmatrix" else "STSM"
    banks = () if bad.size else _passes(matrix_rows(starts, what))
    better = 0
    if any(one.passes > 1 for one in banks):
        first = (step // 8 + 1) * 8
        tried = (one for one in range(first, first + 8 * _TRIED, 8)
                 if all(p.passes == 1 for p in _passes(matrix_rows(_row_addresses(count, one, base)))))  # fmt: skip
        better = next(tried, 0)
    bits = 8 * starts.reshape(count, 8)[:, :, None] + 16 * np.arange(8)[None, None, :]
    memory = Memory(
        base, step, "row", "shared", tuple(int(one) for one in starts), ROW, tuple(_rows(one) for one in bits), banks,
        better,
    )  # fmt: skip
    return _described(form, arch, fragment, memory, tuple(notes))


def _row_addresses(count: int, ldm: int, base: int) -> NDArray[np.int64]:
    lane = np.arange(8 * count, dtype=np.int64)
    return base + 2 * (lane % 16 * ldm + lane // 16 * 8)


def _passes(requests: list[SharedRequest]) -> tuple[BankPass, ...]:
    out = []
    for request in requests:
        parts = list(request.passes())
        for part, words in enumerate(parts):
            out.append(BankPass(request.name, request.about, part, len(parts), tuple(int(n) for n in words)))
    return tuple(out)


def _rows(bits: NDArray[np.int64]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(int(one) for one in row) for row in bits)


def _described(
    form: FragmentForm, arch: str, fragment: FragmentMap, memory: Memory | None, notes: tuple[str, ...]
) -> FragmentLayout:
    rows, columns = fragment.shape
    held: list[list[list[list[Holder]]]] = [
        [[[] for _ in range(columns)] for _ in range(rows)] for _ in range(fragment.tiles)
    ]
    for element in range(fragment.elements):
        for lane in range(fragment.row.shape[0]):
            tile, row, column = (int(index[lane, element]) for index in (fragment.tile, fragment.row, fragment.col))
            held[tile][row][column].append(Holder(lane, element))
    return FragmentLayout(
        name=form.name, matrix=form.matrix, type=form.type, arch=arch, axes=_AXES[form.matrix], rows=rows,
        columns=columns, element_bits=fragment.element_bits, per_register=fragment.per_register,
        registers=fragment.registers, used_registers=fragment.used_registers,
        cells=tuple(tuple(tuple(tuple(one) for one in row) for row in tile) for tile in held),
        memory=memory, notes=notes, source=fragment.source,
    )  # fmt: skip
