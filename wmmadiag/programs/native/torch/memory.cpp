// CPU tensors lie in the runtime's memory: the emulator knows where each ends, and no tensor lies beside another.
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

extern "C" {
void* wmmadiag_tensor(size_t bytes);
void wmmadiag_tensor_gone(void* data);
}

namespace {

struct Tensors final : c10::Allocator {
    c10::DataPtr allocate(size_t bytes) override {
        void* data = wmmadiag_tensor(bytes);
        TORCH_CHECK_WITH(OutOfMemoryError, data != nullptr || bytes == 0, "wmmadiag: no memory for a tensor of ", bytes, " bytes");
        return {data, data, &wmmadiag_tensor_gone, c10::Device(c10::DeviceType::CPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &wmmadiag_tensor_gone; }
    void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};

}  // namespace

// Tensors made from now on.
extern "C" __attribute__((visibility("default"))) void wmmadiag_torch_begin() {
    static auto* one = new Tensors;  // tensors outlive every static object
    c10::SetCPUAllocator(one, 1);
}
