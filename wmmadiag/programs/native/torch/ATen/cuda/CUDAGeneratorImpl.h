// The device's generator of random numbers, as kernels are given it: a seed and an offset for Philox. Its seed is that of torch's CPU
// generator, so that torch.manual_seed() holds for it as it does on a GPU; a new seed begins at offset 0.
#pragma once

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

#include <mutex>
#include <utility>

#include <ATen/cuda/PhiloxCudaState.h>

namespace at {

struct CUDAGeneratorImpl final : c10::GeneratorImpl {
    explicit CUDAGeneratorImpl(DeviceIndex = 0)
        : GeneratorImpl{Device(c10::DeviceType::CUDA, 0), DispatchKeySet(c10::DispatchKey::CUDA)}, of_cpu_(cpu_seed()), seed_(of_cpu_) {}

    // Not the CPU: a generator of torch's that a caller passes is none of this class, and is refused by its device.
    static c10::DeviceType device_type() { return c10::DeviceType::CUDA; }

    void set_current_seed(uint64_t seed) override {
        follow();
        seed_ = seed;
        offset_ = 0;
    }
    uint64_t current_seed() const override {
        const_cast<CUDAGeneratorImpl*>(this)->follow();
        return seed_;
    }
    uint64_t seed() override {
        set_current_seed(c10::detail::getNonDeterministicRandom(true));
        return seed_;
    }
    void set_offset(uint64_t offset) override { offset_ = offset; }
    uint64_t get_offset() const override { return offset_; }
    void set_philox_offset_per_thread(uint64_t offset) { offset_ = offset; }
    uint64_t philox_offset_per_thread() const { return offset_; }

    // As many numbers as a thread draws, in fours.
    PhiloxCudaState philox_cuda_state(uint64_t increment) {
        follow();
        const PhiloxCudaState state(seed_, offset_);
        offset_ += (increment + 3) / 4 * 4;
        return state;
    }
    std::pair<uint64_t, uint64_t> philox_engine_inputs(uint64_t increment) {
        const auto state = philox_cuda_state(increment);
        return {state.seed_.val, state.offset_.val};
    }

    void set_state(const c10::TensorImpl&) override { TORCH_CHECK(false, "wmmadiag: the state of the device's generator cannot be set"); }
    c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
        TORCH_CHECK(false, "wmmadiag: the state of the device's generator cannot be asked for; current_seed and get_offset can");
    }

private:
    static uint64_t cpu_seed() { return at::globalContext().defaultGenerator(c10::Device(c10::DeviceType::CPU)).current_seed(); }
    // torch.manual_seed() since the last look.
    void follow() {
        const auto now = cpu_seed();
        if (now == of_cpu_) return;
        of_cpu_ = seed_ = now;
        offset_ = 0;
    }
    CUDAGeneratorImpl* clone_impl() const override {
        auto* made = new CUDAGeneratorImpl;
        made->of_cpu_ = of_cpu_, made->seed_ = seed_, made->offset_ = offset_;
        return made;
    }

    uint64_t of_cpu_, seed_, offset_ = 0;
};

namespace cuda::detail {

inline Generator createCUDAGenerator(DeviceIndex = 0) { return make_generator<CUDAGeneratorImpl>(); }
inline const Generator& getDefaultCUDAGenerator(DeviceIndex = 0) {
    static const Generator one = createCUDAGenerator();
    return one;
}

}  // namespace cuda::detail

}  // namespace at
