"""Changes that may mend any kernel: general, typed, on the syntax tree.

`registry.changes` yields them all. `places` reads what an entry reaches into the typed expressions and statements of
`model`; each operator is a small module in one of the packages here. None knows what a kernel computes.
"""
