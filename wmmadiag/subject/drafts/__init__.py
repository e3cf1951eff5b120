"""From a CUDA source and its host code to a card."""
