"""The user's lines that a fault of the arithmetic is about."""
