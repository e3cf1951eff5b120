"""`wmmadiag.debug`: a session on a card, or on a source."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.api import open_card
from wmmadiag.api.options import SubjectKeywords
from wmmadiag.debugger.against import open_other
from wmmadiag.debugger.session import Session
from wmmadiag.debugger.target import open_target
from wmmadiag.subject.card import Card
from wmmadiag.subject.target import card_target

if TYPE_CHECKING:
    from typing_extensions import Unpack


def debug(
    subject: str | Path | Card,
    *,
    case: str = "",
    variant: str = "",
    arch: str | None = None,
    seed: int | None = None,
    inputs: str = "",
    use_cache: bool = True,
    against: str | Path | None = None,
    **said: Unpack[SubjectKeywords],
) -> Session:
    """A launch under the debugger, at its beginning.

    Args:
        subject: a card (its file, or loaded), or a source with at least `computes`.
        case, variant: names; "" for the first.
        against: what to compare with: another variant's name, another card, or an .npz file with a GPU's results by
            role or argument; `Session.to_difference` goes to the first difference.
        said, others: as for `wmmadiag.check`.

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
    card = open_card(subject, **said)
    target = open_target(
        card, case=case, variant=variant, arch=card_target(card, arch), seed=seed, inputs=inputs,
        use_cache=use_cache,
    )  # fmt: skip
    session = Session(target)
    if against is not None:
        session.other = open_other(session, against)
    return session
