def lora(inputs, symbols):
    """x W^T + 0.5 (x A^T) B^T."""
    x = inputs["x"]
    return x @ inputs["w"].T + 0.5 * (x @ inputs["a"].T) @ inputs["b"].T
