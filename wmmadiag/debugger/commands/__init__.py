"""The commands of the debugger's prompt, one module per kind."""
