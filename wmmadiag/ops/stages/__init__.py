"""Values on the way to outputs: what they must be, and in which readings a right kernel may keep them."""
