"""Cards by the host functions that stand beside a kernel: calls with the same arrays say what the kernel computes."""
