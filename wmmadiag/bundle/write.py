"""Making a bundle: the card is checked once more in a folder that holds only what the bundle will hold."""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import msgspec

from wmmadiag.api import open_card
from wmmadiag.bundle.model import FORMAT, MANIFEST, RUN, VERSION, BundleOptions, Manifest, StoredCompilation, stored_key
from wmmadiag.bundle.read import contents
from wmmadiag.bundle.staging import checked, input_hashes, lay_out, overlay, working_in
from wmmadiag.compile.driver import compile_source, source_tree
from wmmadiag.compile.languages import is_ptx
from wmmadiag.compile.options import CompileOptions
from wmmadiag.compile.records import to_record
from wmmadiag.compile.sources import read_text
from wmmadiag.compile.toolchain import toolchain
from wmmadiag.errors import ConfigurationError
from wmmadiag.results import json_file
from wmmadiag.results.json_file import write_bytes
from wmmadiag.subject.target import card_target

if TYPE_CHECKING:
    from wmmadiag.compile.model import Compilation
    from wmmadiag.compile.options import CompileOptions
    from wmmadiag.results.run import Run
    from wmmadiag.subject.card import Card

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest date that a zip archive can hold: the same check gives the same bytes


def write_bundle(card_path: Path, target: Path, *, include_paths: tuple[str, ...] = (), **asked: Any) -> Run:
    """Check a card and write all that repeats the check to one file.

    Args:
        card_path: a card; target: the file to write.
        asked: fields of `BundleOptions`; `arch`, `cases` and `variants` may be None for the default and for all.

    Returns:
        The outcome that the bundle holds.

    Raises:
        ConfigurationError: the card is wrong, or needs what no bundle can hold; the file cannot be written.
    """
    if card_path.suffix != ".toml":
        raise ConfigurationError(
            f"{card_path}: a bundle is made of a card", hint=f"write one first: wmmadiag init {card_path}"
        )
    options = BundleOptions(**{**asked, "arch": "sm_90", "cases": (), "variants": ()})
    card = open_card(card_path, **overlay(options))
    if card.computes.operation == "python":
        raise ConfigurationError(
            "a card whose reference is Python code cannot be bundled: replaying it would run that code",
            place=card.computes.place,
            hint="send the folder of the card instead, or a card that computes a built-in operation",
        )
    cases, variants = asked.get("cases"), asked.get("variants")
    options = replace(
        options,
        arch=card_target(card, asked.get("arch")),
        cases=tuple(card.case(one).name for one in cases or [one.name for one in card.cases]),
        variants=tuple(card.variant(one).name for one in variants or [one.name for one in card.variants]),
    )
    base, files = _files(card, options, tuple(map(Path, include_paths)))
    name = _relative(card_path, base)
    extra = tuple(Path(os.path.relpath(path, base)) for path in include_paths)
    compiler = _RecordingCompiler(extra)
    with tempfile.TemporaryDirectory(prefix="wmmadiag-") as temporary:
        folder = Path(temporary)
        lay_out(files, folder)
        for path in (*extra, *(Path(os.path.relpath(one, base)) for one in card.include_paths)):
            if ".." not in path.parts:
                (folder / path).mkdir(parents=True, exist_ok=True)
        with working_in(folder):
            run = checked(name, options, compiler)
            inputs = input_hashes(name, options)
    if not compiler.made:
        problem = next((case.problem.message for case in run.kernels[0].report.cases if case.problem), "")
        raise ConfigurationError(
            f"{card_path}: nothing was compiled, so there is nothing to replay: {problem}",
            hint="mend that first; `wmmadiag check` of the card says more",
        )
    manifest = Manifest(
        format=FORMAT,
        version=VERSION,
        card=name,
        options=options,
        files={path: hashlib.sha256(data).hexdigest() for path, data in files.items()},
        compilations=tuple(one for one, _ in compiler.made.values()),
        inputs=tuple(inputs),
        versions=run.versions,
    )
    _write(target, manifest, run, files, {one.ptx: ptx for one, ptx in compiler.made.values()})
    return run


class _RecordingCompiler:
    """Compiles, and keeps what it made."""

    def __init__(self, include_paths: tuple[Path, ...]) -> None:
        self.include_paths = include_paths
        self.made: dict[tuple[Any, ...], tuple[StoredCompilation, str]] = {}

    def __call__(self, path: Path, options: CompileOptions) -> Compilation:
        wider = replace(options, include_paths=(*options.include_paths, *self.include_paths))
        compilation = compile_source(path, wider)
        source, macros = path.as_posix(), dict(options.macros)
        key = stored_key(source, macros, options.name_expressions, options.std)
        record = {name: value for name, value in to_record(compilation).items() if name != "ptx"}
        file = self.made[key][0].ptx if key in self.made else f"ptx/{len(self.made)}.ptx"
        stored = StoredCompilation(source, macros, options.name_expressions, options.std, file, record)
        self.made[key] = (stored, compilation.ptx)
        return compilation


def _files(card: Card, options: BundleOptions, include_paths: tuple[Path, ...]) -> tuple[Path, dict[str, bytes]]:
    """The folder that all files of a card lie below, and they by their paths from there."""
    wanted = CompileOptions(
        arch=options.arch, include_paths=(*card.include_paths, *include_paths), std=options.std or card.std
    )
    paths = {Path(os.path.abspath(card.path))}  # noqa: PTH100, links stay as named
    for source in [card.source, *(one.source for one in card.variants if one.source is not None)]:
        paths.add(Path(os.path.abspath(source)))  # noqa: PTH100
        if is_ptx(source):
            continue
        tree = source_tree(read_text(source), source.as_posix(), wanted, toolchain())
        if tree.computed:
            raise ConfigurationError(
                f"{source}: a header's name is computed by a macro, so it is not known which files a bundle must hold",
                hint="name the header in its #include, or send the folder instead",
            )
        paths |= {Path(os.path.abspath(one.name)) for one in tree.every()}  # noqa: PTH100
    base = Path(os.path.commonpath([path.parent for path in paths]))
    return base, {_relative(path, base): path.read_bytes() for path in sorted(paths)}


def _relative(path: Path, base: Path) -> str:
    return Path(os.path.relpath(path, base)).as_posix()


def _write(target: Path, manifest: Manifest, run: Run, files: Mapping[str, bytes], ptx: Mapping[str, str]) -> None:
    entries = {
        MANIFEST: msgspec.json.format(msgspec.json.encode(manifest), indent=1),
        RUN: json_file.render(run).encode(),
    }
    entries |= {f"files/{PurePosixPath(name)}": data for name, data in files.items()}
    entries |= {name: text.encode("utf-8", "surrogateescape") for name, text in ptx.items()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED)
    contents(buffer.getvalue(), str(target))  # what could not be read again is not written
    write_bytes(target, buffer.getvalue())
