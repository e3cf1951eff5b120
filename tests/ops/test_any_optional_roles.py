"""An operation is computed of its required tensors and any of the others, or says why it is not."""

from __future__ import annotations

import numpy as np
import pytest
from operation_cards import DOCUMENTED, card_of

from wmmadiag.errors import WmmadiagError
from wmmadiag.ops.evaluation import judge, reference
from wmmadiag.subject.binding import bind

_SETS = 12  # of optional roles, drawn


@pytest.mark.parametrize("name", sorted(DOCUMENTED))
def test_any_of_the_other_roles_may_be_there(name, tmp_path):
    operation, rng = DOCUMENTED[name], np.random.default_rng(0)
    others = [role for role, one in operation.roles.items() if not one.required]
    chosen = [{role} for role in others] + [
        {role for role in others if rng.random() < 0.5} for _ in range(_SETS if len(others) > 1 else 0)
    ]
    computed = 0
    for roles in chosen:
        card = card_of(operation, tmp_path, dict.fromkeys(roles, ""))
        try:
            bound = bind(card, card.cases[0], card.variants[0])
            expected = reference(name, bound.parameters, bound.inputs())
            judged = judge(name, bound.parameters, bound.inputs(), expected, bound.elements())
        except WmmadiagError:
            continue
        computed += 1
        for role, one in judged.items():
            assert one.bound.shape == expected[role].shape
    assert computed or not chosen
