"""Why a kernel is wrong: changes of its source are tried, and the one that makes the numbers right is the proof.

`engine.diagnose_card` runs the cases, reads what one failing run shows (`suspicion`), ranks every change that the
`operators` yield, tries them (`trials`, `search`), holds what mends to every case (`confirm`), and says what differs.
"""
