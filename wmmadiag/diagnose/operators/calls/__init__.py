"""Operators; see the registry."""
