def gradients(tensors, sizes):
    grad_out, x = tensors["grad_out"], tensors["x"]
    return {"grad_w": grad_out.T @ x, "grad_b": grad_out.sum(axis=0)}
