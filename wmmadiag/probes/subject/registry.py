"""The probes of a kernel, found by walking this package.

To add one, write a module here that defines `PROBE = SubjectProbe(…)`; a kernel of which it must answer "right" and a
wrong one go into `tests/probes/`. `docs/probes.md` is made of the docstrings.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from wmmadiag.probes.registry import modules_of
from wmmadiag.probes.subject.model import SubjectProbe


@cache
def all_subject_probes() -> Mapping[str, SubjectProbe]:
    """Every probe of a kernel by name, in the order of their names."""
    return {name: probe for name, (probe, _) in modules_of("wmmadiag.probes.subject", SubjectProbe).items()}
