"""What the host code of a source does with its kernels: its functions run on the syntax tree, over symbols for sizes.

`host.launches_of(program)` gives every launch with its instantiation, grid, block, shared bytes and arguments as terms
over the sizes that host code names, and what else the host does with the same arrays. Nothing here knows what a kernel
computes.
"""
