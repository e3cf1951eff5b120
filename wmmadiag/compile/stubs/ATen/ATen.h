#include <torch/wmmadiag_torch.h>
