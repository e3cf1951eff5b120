"""Host functions of the user's as references: `gelu_forward_cpu(out, inp, N)` beside the kernel says what is right.

The functions that a call reaches are taken out of the source and compiled with a number type of our own (`real.hpp`):
the value in double, and the largest error that rounding each operation explains. So they give a bound as well.
"""
