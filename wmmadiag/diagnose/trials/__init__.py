"""Trying things on the failing case: changed sources, other launches, room behind arrays."""
