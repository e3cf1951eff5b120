// Memory of torch's CPU tensors: the host and kernels use it alike, and it ends where the tensor ends.
#include "runtime.hpp"

using namespace wmmadiag;

extern "C" {

void* wmmadiag_tensor(std::size_t bytes) {
    WMMADIAG_LOCKED;
    const Here before = here();
    here() = {"", 0, "", 1};
    void* data = bytes == 0 ? nullptr : allocate(bytes, Kind::managed, "of a tensor");
    here() = before;
    return data;
}

void wmmadiag_tensor_gone(void* data) {
    WMMADIAG_LOCKED;
    if (data != nullptr) release(data, Kind::managed);
}

// How messages call the tensor whose storage begins there; false: that is no memory of the runtime's.
bool wmmadiag_tensor_name(const void* data, const char* name, std::size_t item) {
    WMMADIAG_LOCKED;
    auto* one = allocation_at(data);
    if (one == nullptr) return false;
    one->name = name;
    one->item = item;
    return true;
}

}  // extern "C"
