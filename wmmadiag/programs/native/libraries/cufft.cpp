// cuFFT: plans, their layouts in memory, and the transforms of one to three dimensions.
#include "cufft.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cufftXt.h"
#include "fft_plans.hpp"

namespace wmmadiag::fft {

using namespace libraries;

namespace {

cufftResult run(Caller caller, cufftHandle handle, cufftType type, const void* in, void* out, int direction) {
    WMMADIAG_LOCKED;
    ::wmmadiag::here() = {caller.file, caller.line, "", 1};
    const auto plan = plan_of(handle);
    if (plan == nullptr || !plan->made) return WMMADIAG_REFUSED(caller.function, "there is no such plan, or it was not made", CUFFT_INVALID_PLAN);
    if (plan->type != type) return WMMADIAG_REFUSED(caller.function, "the plan was made for another cufftType", CUFFT_INVALID_TYPE);
    if (in == nullptr || out == nullptr) return WMMADIAG_REFUSED(caller.function, "an array is null", CUFFT_INVALID_VALUE);
    if (direction != CUFFT_FORWARD && direction != CUFFT_INVERSE)
        return WMMADIAG_REFUSED(caller.function, "direction is " + std::to_string(direction) + ", not CUFFT_FORWARD or CUFFT_INVERSE",
                                CUFFT_INVALID_VALUE);
    if (!plan->allocates && plan->work == nullptr)
        return WMMADIAG_REFUSED(caller.function, "the plan does not allocate, and was given no work area", CUFFT_EXEC_FAILED);
    if (::wmmadiag::status() != cudaSuccess) return CUFFT_EXEC_FAILED;
    try {
        const std::shared_ptr<const Plan> kept = std::make_shared<Plan>(*plan);
        Call{caller.function, plan->stream, false}.submit([=] { execute(caller.function, *kept, in, out, direction == CUFFT_INVERSE); });
        return CUFFT_SUCCESS;
    } catch (cudaError_t) {
        return CUFFT_EXEC_FAILED;
    }
}

template <class Sizes>
cufftResult create_and_make(Caller caller, cufftHandle* plan, const Sizes& sizes, cufftType type, int batch) {
    if (plan == nullptr) return CUFFT_INVALID_VALUE;
    cufftCreate(plan);
    const auto result = make(caller, *plan, sizes, nullptr, 1, 0, nullptr, 1, 0, type, batch, nullptr);
    if (result != CUFFT_SUCCESS) cufftDestroy(*plan);
    return result;
}

std::vector<Size> wide(int rank, const int* sizes) {
    if (sizes == nullptr || rank < 1 || rank > 3) return {};
    return {sizes, sizes + rank};
}

cufftResult estimate(const std::vector<Size>& n, cufftType type, Size batch, size_t* work) {
    if (work == nullptr || !known(type)) return CUFFT_INVALID_VALUE;
    for (const auto one : n)
        if (one < 1) return CUFFT_INVALID_SIZE;
    if (n.empty() || batch < 1) return CUFFT_INVALID_SIZE;
    *work = work_of(n, batch, type == CUFFT_Z2Z || type == CUFFT_D2Z || type == CUFFT_Z2D);
    return CUFFT_SUCCESS;
}

template <class Body>
cufftResult with_plan(cufftHandle handle, const Body& body) {
    WMMADIAG_LOCKED;
    const auto plan = plan_of(handle);
    if (plan == nullptr) return CUFFT_INVALID_PLAN;
    body(*plan);
    return CUFFT_SUCCESS;
}

}  // namespace

}  // namespace wmmadiag::fft

using namespace wmmadiag::fft;
using wmmadiag::Caller;

cufftResult cufftCreate(cufftHandle* plan) {
    WMMADIAG_LOCKED;
    if (plan == nullptr) return CUFFT_INVALID_VALUE;
    static cufftHandle next = 0;
    *plan = ++next;
    plans()[*plan] = std::make_shared<Plan>();
    return CUFFT_SUCCESS;
}
cufftResult cufftDestroy(cufftHandle plan) {
    WMMADIAG_LOCKED;
    return plans().erase(plan) != 0 ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN;
}

cufftResult cufftPlan1d(cufftHandle* plan, int nx, cufftType type, int batch, wmmadiag::Place caller) {
    return create_and_make(caller(__func__), plan, std::vector<Size>{nx}, type, batch);
}
cufftResult cufftPlan2d(cufftHandle* plan, int nx, int ny, cufftType type, wmmadiag::Place caller) {
    return create_and_make(caller(__func__), plan, std::vector<Size>{nx, ny}, type, 1);
}
cufftResult cufftPlan3d(cufftHandle* plan, int nx, int ny, int nz, cufftType type, wmmadiag::Place caller) {
    return create_and_make(caller(__func__), plan, std::vector<Size>{nx, ny, nz}, type, 1);
}
cufftResult cufftMakePlan1d(cufftHandle plan, int nx, cufftType type, int batch, size_t* work, wmmadiag::Place caller) {
    return make(caller(__func__), plan, {nx}, nullptr, 1, 0, nullptr, 1, 0, type, batch, work);
}
cufftResult cufftMakePlan2d(cufftHandle plan, int nx, int ny, cufftType type, size_t* work, wmmadiag::Place caller) {
    return make(caller(__func__), plan, {nx, ny}, nullptr, 1, 0, nullptr, 1, 0, type, 1, work);
}
cufftResult cufftMakePlan3d(cufftHandle plan, int nx, int ny, int nz, cufftType type, size_t* work, wmmadiag::Place caller) {
    return make(caller(__func__), plan, {nx, ny, nz}, nullptr, 1, 0, nullptr, 1, 0, type, 1, work);
}
static cufftResult make_many(Caller caller, cufftHandle plan, int rank, const int* n, const int* inembed, int istride, int idist, const int* onembed,
                             int ostride, int odist, cufftType type, int batch, size_t* work) {
    const auto in = wide(rank, inembed), out = wide(rank, onembed);
    return make(caller, plan, wide(rank, n), inembed != nullptr ? in.data() : nullptr, istride, idist, onembed != nullptr ? out.data() : nullptr,
                ostride, odist, type, batch, work);
}
cufftResult cufftMakePlanMany(cufftHandle plan, int rank, int* n, int* inembed, int istride, int idist, int* onembed, int ostride, int odist,
                              cufftType type, int batch, size_t* work, wmmadiag::Place caller) {
    return make_many(caller(__func__), plan, rank, n, inembed, istride, idist, onembed, ostride, odist, type, batch, work);
}
cufftResult cufftPlanMany(cufftHandle* plan, int rank, int* n, int* inembed, int istride, int idist, int* onembed, int ostride, int odist,
                          cufftType type, int batch, wmmadiag::Place caller) {
    if (plan == nullptr) return CUFFT_INVALID_VALUE;
    cufftCreate(plan);
    const auto result = make_many(caller(__func__), *plan, rank, n, inembed, istride, idist, onembed, ostride, odist, type, batch, nullptr);
    if (result != CUFFT_SUCCESS) cufftDestroy(*plan);
    return result;
}
cufftResult cufftMakePlanMany64(cufftHandle plan, int rank, long long* n, long long* inembed, long long istride, long long idist, long long* onembed,
                                long long ostride, long long odist, cufftType type, long long batch, size_t* work, wmmadiag::Place caller) {
    const std::vector<Size> sizes = n != nullptr && rank >= 1 && rank <= 3 ? std::vector<Size>{n, n + rank} : std::vector<Size>{};
    return make(caller(__func__), plan, sizes, inembed, istride, idist, onembed, ostride, odist, type, batch, work);
}
cufftResult cufftXtMakePlanMany(cufftHandle plan, int rank, long long* n, long long* inembed, long long istride, long long idist, cudaDataType in,
                                long long* onembed, long long ostride, long long odist, cudaDataType out, long long batch, size_t* work, cudaDataType,
                                wmmadiag::Place caller) {
    const struct {
        cudaDataType in, out;
        cufftType type;
    } offered[] = {{CUDA_C_32F, CUDA_C_32F, CUFFT_C2C}, {CUDA_R_32F, CUDA_C_32F, CUFFT_R2C}, {CUDA_C_32F, CUDA_R_32F, CUFFT_C2R},
                   {CUDA_C_64F, CUDA_C_64F, CUFFT_Z2Z}, {CUDA_R_64F, CUDA_C_64F, CUFFT_D2Z}, {CUDA_C_64F, CUDA_R_64F, CUFFT_Z2D}};
    for (const auto& one : offered)
        if (one.in == in && one.out == out)
            return cufftMakePlanMany64(plan, rank, n, inembed, istride, idist, onembed, ostride, odist, one.type, batch, work, caller);
    WMMADIAG_LOCKED;
    ::wmmadiag::here() = {caller.file, caller.line, "", 1};
    return WMMADIAG_REFUSED(__func__, "transforms between cudaDataType " + std::to_string(in) + " and " + std::to_string(out) + " are not offered",
                            CUFFT_NOT_SUPPORTED);
}

cufftResult cufftEstimate1d(int nx, cufftType type, int batch, size_t* work) { return estimate({nx}, type, batch, work); }
cufftResult cufftEstimate2d(int nx, int ny, cufftType type, size_t* work) { return estimate({nx, ny}, type, 1, work); }
cufftResult cufftEstimate3d(int nx, int ny, int nz, cufftType type, size_t* work) { return estimate({nx, ny, nz}, type, 1, work); }
cufftResult cufftEstimateMany(int rank, int* n, int*, int, int, int*, int, int, cufftType type, int batch, size_t* work) {
    return estimate(wide(rank, n), type, batch, work);
}
cufftResult cufftGetSize1d(cufftHandle, int nx, cufftType type, int batch, size_t* work) { return estimate({nx}, type, batch, work); }
cufftResult cufftGetSize2d(cufftHandle, int nx, int ny, cufftType type, size_t* work) { return estimate({nx, ny}, type, 1, work); }
cufftResult cufftGetSize3d(cufftHandle, int nx, int ny, int nz, cufftType type, size_t* work) { return estimate({nx, ny, nz}, type, 1, work); }
cufftResult cufftGetSizeMany(cufftHandle, int rank, int* n, int*, int, int, int*, int, int, cufftType type, int batch, size_t* work) {
    return estimate(wide(rank, n), type, batch, work);
}

cufftResult cufftGetSize(cufftHandle handle, size_t* work) {
    if (work == nullptr) return CUFFT_INVALID_VALUE;
    return with_plan(handle, [&](Plan& plan) { *work = plan.work_bytes; });
}
cufftResult cufftSetWorkArea(cufftHandle handle, void* work) {
    return with_plan(handle, [&](Plan& plan) { plan.work = work; });
}
cufftResult cufftSetAutoAllocation(cufftHandle handle, int allocate) {
    return with_plan(handle, [&](Plan& plan) { plan.allocates = allocate != 0; });
}
cufftResult cufftSetStream(cufftHandle handle, cudaStream_t stream) {
    return with_plan(handle, [&](Plan& plan) { plan.stream = stream; });
}
cufftResult cufftGetVersion(int* version) {
    if (version == nullptr) return CUFFT_INVALID_VALUE;
    *version = CUFFT_VERSION;
    return CUFFT_SUCCESS;
}
cufftResult cufftGetProperty(libraryPropertyType type, int* value) {
    if (value == nullptr || type < MAJOR_VERSION || type > PATCH_LEVEL) return CUFFT_INVALID_VALUE;
    const int parts[] = {CUFFT_VER_MAJOR, CUFFT_VER_MINOR, CUFFT_VER_PATCH};
    *value = parts[type];
    return CUFFT_SUCCESS;
}

cufftResult cufftExecC2C(cufftHandle plan, cufftComplex* in, cufftComplex* out, int direction, wmmadiag::Place caller) {
    return run(caller(__func__), plan, CUFFT_C2C, in, out, direction);
}
cufftResult cufftExecR2C(cufftHandle plan, cufftReal* in, cufftComplex* out, wmmadiag::Place caller) {
    return run(caller(__func__), plan, CUFFT_R2C, in, out, CUFFT_FORWARD);
}
cufftResult cufftExecC2R(cufftHandle plan, cufftComplex* in, cufftReal* out, wmmadiag::Place caller) {
    return run(caller(__func__), plan, CUFFT_C2R, in, out, CUFFT_INVERSE);
}
cufftResult cufftExecZ2Z(cufftHandle plan, cufftDoubleComplex* in, cufftDoubleComplex* out, int direction, wmmadiag::Place caller) {
    return run(caller(__func__), plan, CUFFT_Z2Z, in, out, direction);
}
cufftResult cufftExecD2Z(cufftHandle plan, cufftDoubleReal* in, cufftDoubleComplex* out, wmmadiag::Place caller) {
    return run(caller(__func__), plan, CUFFT_D2Z, in, out, CUFFT_FORWARD);
}
cufftResult cufftExecZ2D(cufftHandle plan, cufftDoubleComplex* in, cufftDoubleReal* out, wmmadiag::Place caller) {
    return run(caller(__func__), plan, CUFFT_Z2D, in, out, CUFFT_INVERSE);
}
cufftResult cufftXtExec(cufftHandle handle, void* in, void* out, int direction, wmmadiag::Place caller) {
    const auto plan = plan_of(handle);
    const auto type = plan != nullptr ? plan->type : CUFFT_C2C;
    const bool fixed = type != CUFFT_C2C && type != CUFFT_Z2Z;
    return run(caller(__func__), handle, type, in, out, fixed ? (plan->real_in() ? CUFFT_FORWARD : CUFFT_INVERSE) : direction);
}
#undef WMMADIAG_REFUSED
