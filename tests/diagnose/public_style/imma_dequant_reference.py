def reference(inputs, symbols):
    y = (inputs["x"] @ inputs["w"].T) * inputs["x_scale"][:, None] * inputs["w_scale"][None, :]
    return y + inputs["bias"] if symbols["has_bias"] else y
