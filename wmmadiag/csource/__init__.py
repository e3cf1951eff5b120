"""CUDA source as a tree: parsing, names and scopes, edits. What the compiler knows is asked of the compiler.

`tree.parse` gives a `Source`, whose nodes are the parser's own; `declarations`, `variables` and `scopes` say what it
declares, `nodes` walks it, `edits` changes its text. Nothing here knows what a kernel computes.
"""
