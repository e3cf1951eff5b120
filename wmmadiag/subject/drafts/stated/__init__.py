"""What comments of a source say that its kernel computes: formulas, and how the arrays are shaped."""
