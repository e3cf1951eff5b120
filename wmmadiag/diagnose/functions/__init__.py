"""Fault models for cards that describe the computation by a function of the user's: nothing is known of what it does.

So the function is rerun with one thing changed: an input that it is given (`operands`), its own text (`rewriting`), or
what it returns (`results`). A change that gives the kernel's wrong output within the bound says what the kernel does.

To add one, write a generator of `Change`s in one of these modules, or a new one that `fitting` lists.
"""

from wmmadiag.diagnose.functions.fitting import fit_function

__all__ = ["fit_function"]
