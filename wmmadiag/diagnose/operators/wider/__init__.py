"""Operators of the second round, tried where no change of the first one mends anything; see the registry."""
