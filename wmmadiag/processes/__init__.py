"""Child processes that never outlive this one, and never take it with them."""

from wmmadiag.processes.child import Child, ChildEnded, ChildSilent

__all__ = ["Child", "ChildEnded", "ChildSilent"]
