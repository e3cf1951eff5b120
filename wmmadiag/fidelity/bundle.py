"""A difference in a file: which case it is, and what the GPU answered; repeated on any machine."""

from __future__ import annotations

import io
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from wmmadiag.errors import ConfigurationError
from wmmadiag.fidelity.cases import Array
from wmmadiag.fidelity.compare import Compared, GpuLoader, Piece, difference, emulated, on_gpu
from wmmadiag.fidelity.families import FAMILIES

MANIFEST = "difference.json"
_PTX, _ARRAYS = "kernel.ptx", "gpu.npz"
_VERSION = 1
_MAX_BYTES = 256 << 20
_HINT = "make it again with `wmmadiag campaign --fidelity --bundles FOLDER`"


@dataclass(frozen=True, slots=True)
class _PieceManifest:
    piece: Piece
    version: int = _VERSION


def packed(piece: Piece, load_gpu: GpuLoader | None = None) -> bytes:
    """A piece and what the GPU answers to it, as a file.

    Raises:
        WmmadiagError: it cannot be run.
    """
    family = FAMILIES[piece.family]
    case = family.make(piece.arch, piece.key, piece.seed, piece.size)
    theirs = case.run((load_gpu or on_gpu)(case.ptx, case.entry, piece.arch, family.assembly))
    arrays = io.BytesIO()
    np.savez_compressed(arrays, allow_pickle=False, **theirs)
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MANIFEST, msgspec.json.encode(_PieceManifest(piece)))
        archive.writestr(_PTX, case.ptx)
        archive.writestr(_ARRAYS, arrays.getvalue())
    return target.getvalue()


def is_difference(path: Path) -> bool:
    """Whether a file is one that `packed` made."""
    try:
        with zipfile.ZipFile(path) as archive:
            return MANIFEST in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def repeated(path: Path) -> Compared:
    """Run the case of a file on the emulator, against what the GPU answered then.

    Raises:
        ConfigurationError: the file is damaged, or its case is another one in this version.
        WmmadiagError: the emulator cannot run it.
    """
    piece, ptx, theirs = _read(path)
    case = FAMILIES[piece.family].make(piece.arch, piece.key, piece.seed, piece.size)
    if case.ptx != ptx:
        raise ConfigurationError(f"{path}: this version makes another case of {piece.key}", hint=_HINT)
    ours = case.run(emulated(case.ptx, case.entry, piece.arch))
    if {name: array.shape for name, array in ours.items()} != {name: array.shape for name, array in theirs.items()}:
        raise ConfigurationError(f"{path}: its arrays are not those of {piece.key}", hint=_HINT)
    return difference(piece, case, ours, theirs)


def _read(path: Path) -> tuple[Piece, str, dict[str, Array]]:
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > _MAX_BYTES:
                raise ConfigurationError(
                    f"{path} is larger than any such file ({_MAX_BYTES >> 20} MiB)",
                    hint="make it again: `wmmadiag campaign --fidelity`",
                )
            manifest = msgspec.json.decode(archive.read(MANIFEST), type=_PieceManifest)
            ptx = archive.read(_PTX).decode()
            with np.load(io.BytesIO(archive.read(_ARRAYS)), allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile, zlib.error, msgspec.DecodeError) as error:
        raise ConfigurationError(f"{path} is damaged: {error}", hint=_HINT) from None
    piece = manifest.piece
    if manifest.version != _VERSION or piece.family not in FAMILIES:
        raise ConfigurationError(f"{path} was made by another version", hint=_HINT)
    if piece.key not in FAMILIES[piece.family].keys(piece.arch):
        raise ConfigurationError(f"{path}: there is no {piece.key} in this version", hint=_HINT)
    return piece, ptx, arrays
