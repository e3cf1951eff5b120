"""Repeating a bundle's check, and comparing what comes out with what is to be expected."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.api import open_card
from wmmadiag.bundle.model import StoredCompilation, stored_key
from wmmadiag.bundle.read import Bundle
from wmmadiag.bundle.staging import checked, input_hashes, lay_out, overlay, working_in
from wmmadiag.compile.languages import is_ptx
from wmmadiag.compile.origin import remember
from wmmadiag.compile.records import from_record
from wmmadiag.errors import ConfigurationError, UndecidedError
from wmmadiag.gate.known_failures import failures_of
from wmmadiag.results.brief import brief

if TYPE_CHECKING:
    from wmmadiag.compile.model import Compilation
    from wmmadiag.compile.options import CompileOptions
    from wmmadiag.results.model import CaseResult
    from wmmadiag.results.run import Run


@dataclass(frozen=True, slots=True)
class Replayed:
    """A check that was repeated."""

    run: Run  # what came out
    differences: tuple[str, ...]  # from what was to be expected, one line each; none if the outcome is the same


def replay(bundle: Bundle, *, backend: str = "emulator") -> Replayed:
    """Repeat the check of a bundle, in a temporary folder that is the current one meanwhile.

    Raises:
        UndecidedError: the inputs that are drawn here are not those that were drawn there.
        ConfigurationError: the bundle's card or its PTX makes no sense.
    """
    manifest = bundle.manifest
    with tempfile.TemporaryDirectory(prefix="wmmadiag-") as temporary:
        lay_out(bundle.files, Path(temporary))
        with working_in(Path(temporary)):
            _refuse_strays(bundle)
            if set(input_hashes(manifest.card, manifest.options)) != set(manifest.inputs):
                made = ", ".join(f"{name} {version}" for name, version in manifest.versions.items())
                raise UndecidedError(
                    "the inputs that the bundle's seeds give here are not those that they gave there",
                    hint=f"replay it with the versions that made it: {made}",
                )
            run = checked(manifest.card, manifest.options, _Stored(bundle), backend)
    return Replayed(run, tuple(_differences(bundle.run, run)) if backend == "emulator" else ())


def _refuse_strays(bundle: Bundle) -> None:
    """Refuse a card that would run Python code, or read what is not in the bundle.

    Raises:
        ConfigurationError: it does.
    """
    card = open_card(bundle.manifest.card, **overlay(bundle.manifest.options))
    if card.computes.operation == "python":
        raise ConfigurationError(
            "the bundle's card names Python code, which is not run",
            place=card.computes.place,
            hint="check the card itself, where its reference is: `wmmadiag check CARD`",
        )
    sources = [card.source, *(one.source for one in card.variants if one.source is not None)]
    for source in sources:
        if Path(os.path.normpath(source)).as_posix() not in bundle.files:
            raise ConfigurationError(
                f"the bundle's card reads {source}, which is not in the bundle",
                hint="make it again with `wmmadiag check CARD --bundle FILE`",
            )


class _Stored:
    """Gives what was compiled when the bundle was made."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self.known: dict[object, StoredCompilation] = {
            stored_key(one.source, one.macros, one.expressions, one.std): one for one in bundle.manifest.compilations
        }

    def __call__(self, path: Path, options: CompileOptions) -> Compilation:
        key = stored_key(path.as_posix(), options.macros, options.name_expressions, options.std)
        stored = self.known.get(key)
        if stored is None:
            raise ConfigurationError(
                f"the bundle holds no PTX of {path} with these macros; it did not compile there",
                hint="make the source compile, and the bundle again: `wmmadiag check CARD --bundle FILE`",
            )
        record = {**stored.record, "ptx": self.bundle.ptx[stored.ptx]}
        found = from_record(record, options, "")
        if found is None:
            raise ConfigurationError(
                f"the bundle is damaged: what it says of {path} makes no sense",
                hint="make it again with `wmmadiag check CARD --bundle FILE`",
            )
        data = self.bundle.files.get(path.as_posix(), b"")
        found = replace(found, text=found.ptx if is_ptx(path) else data.decode("utf-8-sig", "surrogateescape"))
        remember(found)
        return found


def _differences(expected: Run, found: Run) -> Iterator[str]:
    then, now = ({(c.variant, c.case): c for one in run.kernels for c in one.report.cases} for run in (expected, found))
    for key in dict.fromkeys([*then, *now]):
        before, after = then.get(key), now.get(key)
        if before is None or after is None:
            yield f"{' / '.join(key)}: {'not in the bundle' if before is None else 'did not run'}"
        elif _outcome(before) != _outcome(after):
            yield f"{' / '.join(key)}: {_words(before)} in the bundle, {_words(after)} here"


def _outcome(case: CaseResult) -> object:
    return case.status, case.observations, failures_of(case)


def _words(case: CaseResult) -> str:
    return f"{case.status} ({brief(case)})" if brief(case) else case.status
