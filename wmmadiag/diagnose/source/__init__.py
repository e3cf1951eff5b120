"""What a CUDA source says, without a full parse: tokens, statements, variables, fragments, barriers, in place."""
