"""`wmmadiag.debug`: a session on a card, or on a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.api import Macros, open_card
from wmmadiag.debugger.session import Session
from wmmadiag.debugger.target import open_target
from wmmadiag.subject.target import card_target

if TYPE_CHECKING:
    from wmmadiag.compile.options import CompilerName
    from wmmadiag.subject.card import Card


def debug(
    subject: str | Path | Card,
    *,
    case: str = "",
    variant: str = "",
    arch: str | None = None,
    seed: int | None = None,
    inputs: str = "",
    entry: str = "",
    computes: str = "",
    grid: Sequence[str | int] = (),
    block: Sequence[str | int] = (),
    shared: str | int = "",
    macros: Macros | None = None,
    symbols: Mapping[str, str | int | float] | None = None,
    include_paths: Sequence[str | Path] = (),
    std: str = "",
    compiler: CompilerName = "auto",
    use_cache: bool = True,
    against: str | Path | None = None,
) -> Session:
    """A launch under the debugger, at its beginning.

    Args:
        subject: a card (its file, or loaded), or a source with at least `computes`; the options are those of
            `wmmadiag.check`.
        case, variant: names; "" for the first.
        against: what to compare with: another variant's name, another card, or an .npz file with a GPU's results by
            role or argument; `Session.to_difference` goes to the first difference.

    Raises:
        ConfigurationError: the card or the options are wrong.
        CompileError, UnsupportedError: it cannot be compiled, or is not emulated.

    >>> import wmmadiag
    >>> session = wmmadiag.debug("kernels/gemm/kernel.toml")
    >>> session.run_to(tensor_op=1).reason
    'instruction'
    >>> session.fragment("a").values.shape
    (16, 16)
    """
    card = open_card(
        subject, entry=entry, computes=computes, grid=grid, block=block, shared=shared, macros=macros, symbols=symbols,
        include_paths=include_paths, std=std,
    )  # fmt: skip
    target = open_target(
        card, case=case, variant=variant, arch=card_target(card, arch), seed=seed, inputs=inputs, compiler=compiler,
        use_cache=use_cache,
    )  # fmt: skip
    session = Session(target)
    if against is not None:
        from wmmadiag.debugger.against import open_other

        session.other = open_other(session, against)
    return session
