"""The Debug Adapter Protocol on a session, for editors: `serve(input, output)`.

Specification: microsoft.github.io/debug-adapter-protocol. Threads are the warps of the running block; an editor's "step
back" and "reverse" are the session's own. What is typed in the debug console are commands of the prompt.
"""

from wmmadiag.debugger.dap.adapter import Adapter
from wmmadiag.debugger.dap.wire import messages, write

__all__ = ["Adapter", "messages", "write"]
