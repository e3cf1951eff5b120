// cublasLtMatmul: D = epilogue(alpha · scales · op(A)·op(B) + beta · C), in float64, rounded once.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

#include "blaslt_matmul.hpp"

using namespace wmmadiag::libraries;
using namespace wmmadiag::lt;

struct cublasLtContext {};

namespace {

static_assert(sizeof(Layout) <= sizeof(cublasLtMatrixLayoutOpaque_t) && sizeof(Description) <= sizeof(cublasLtMatmulDescOpaque_t));

struct Field {
    void* at;
    size_t bytes;
};

template <class T>
Field field(T& member) {
    return {&member, sizeof member};
}

Field layout_field(Layout& x, int attribute) {
    switch (attribute) {
        case CUBLASLT_MATRIX_LAYOUT_TYPE: return field(x.type);
        case CUBLASLT_MATRIX_LAYOUT_ORDER: return field(x.order);
        case CUBLASLT_MATRIX_LAYOUT_ROWS: return field(x.rows);
        case CUBLASLT_MATRIX_LAYOUT_COLS: return field(x.cols);
        case CUBLASLT_MATRIX_LAYOUT_LD: return field(x.ld);
        case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return field(x.batches);
        case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: return field(x.batch_stride);
        case CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET: return field(x.plane);
        case CUBLASLT_MATRIX_LAYOUT_BATCH_MODE: return field(x.batch_mode);
        default: return {nullptr, 0};
    }
}

Field description_field(Description& x, int attribute) {
    switch (attribute) {
        case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE: return field(x.compute);
        case CUBLASLT_MATMUL_DESC_SCALE_TYPE: return field(x.scale_type);
        case CUBLASLT_MATMUL_DESC_POINTER_MODE: return field(x.pointers);
        case CUBLASLT_MATMUL_DESC_TRANSA:
        case CUBLASLT_MATMUL_DESC_TRANSB:
        case CUBLASLT_MATMUL_DESC_TRANSC: return field(x.transposed[attribute - CUBLASLT_MATMUL_DESC_TRANSA]);
        case CUBLASLT_MATMUL_DESC_FILL_MODE: return field(x.fill);
        case CUBLASLT_MATMUL_DESC_EPILOGUE: return field(x.epilogue);
        case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return field(x.bias);
        case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE: return field(x.bias_stride);
        case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return field(x.aux);
        case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return field(x.aux_ld);
        case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE: return field(x.aux_stride);
        case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET: return field(x.sm_count);
        case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
        case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
        case CUBLASLT_MATMUL_DESC_C_SCALE_POINTER:
        case CUBLASLT_MATMUL_DESC_D_SCALE_POINTER: return field(x.scales[attribute - CUBLASLT_MATMUL_DESC_A_SCALE_POINTER]);
        case CUBLASLT_MATMUL_DESC_AMAX_D_POINTER: return field(x.largest);
        case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE: return field(x.aux_type);
        case CUBLASLT_MATMUL_DESC_EMULATION_DESCRIPTOR: return field(x.emulation);
        case CUBLASLT_MATMUL_DESC_FAST_ACCUM: return field(x.fast);
        case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return field(x.bias_type);
        case CUBLASLT_MATMUL_DESC_A_SCALE_MODE:
        case CUBLASLT_MATMUL_DESC_B_SCALE_MODE:
        case CUBLASLT_MATMUL_DESC_C_SCALE_MODE:
        case CUBLASLT_MATMUL_DESC_D_SCALE_MODE: return field(x.modes[attribute - CUBLASLT_MATMUL_DESC_A_SCALE_MODE]);
        default: return {nullptr, 0};
    }
}

template <class T, class Opaque>
T& inside(Opaque* opaque) {
    return *std::launder(reinterpret_cast<T*>(opaque->data));
}

template <class T, class Opaque>
T& initialised(Opaque* opaque) {
    *opaque = {};
    return *new (opaque->data) T{};
}

cublasStatus_t set(const char* name, Field field, int attribute, const void* value, size_t bytes) {
    if (field.at == nullptr) return not_offered(name, "attribute", attribute).status;
    if (value == nullptr || bytes != field.bytes)
        return invalid(name, "the value has %lld bytes, the attribute %lld", static_cast<long long>(bytes), static_cast<long long>(field.bytes))
            .status;
    std::memcpy(field.at, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t get(const char* name, Field field, int attribute, void* value, size_t bytes, size_t* written) {
    if (field.at == nullptr) return not_offered(name, "attribute", attribute).status;
    if (written != nullptr) *written = field.bytes;
    if (bytes == 0 && written != nullptr) return CUBLAS_STATUS_SUCCESS;
    if (value == nullptr || bytes < field.bytes) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(value, field.at, field.bytes);
    return CUBLAS_STATUS_SUCCESS;
}

template <class Opaque, class... Arguments>
cublasStatus_t create(Opaque** out, cublasStatus_t (*init)(Opaque*, Arguments...), Arguments... arguments) {
    if (out == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    *out = new Opaque;
    return init(*out, arguments...);
}

}  // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
    if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    *handle = new cublasLtContext;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}
size_t cublasLtGetVersion() { return CUBLAS_VERSION; }
const char* cublasLtGetStatusName(cublasStatus_t status) { return cublasGetStatusName(status); }
const char* cublasLtGetStatusString(cublasStatus_t status) { return cublasGetStatusString(status); }

cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayout_t layout, cudaDataType type, uint64_t rows, uint64_t cols, int64_t ld) {
    Layout& x = initialised<Layout>(layout);
    x.rows = rows, x.cols = cols, x.ld = ld, x.type = type, x.order = CUBLASLT_ORDER_COL, x.batches = 1;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows, uint64_t cols, int64_t ld) {
    return create(layout, cublasLtMatrixLayoutInit, type, rows, cols, ld);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
    delete layout;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                size_t bytes) {
    return set(__func__, layout_field(inside<Layout>(layout), attribute), attribute, value, bytes);
}
cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, void* value, size_t bytes,
                                                size_t* written) {
    return get(__func__, layout_field(inside<Layout>(layout), attribute), attribute, value, bytes, written);
}

cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDesc_t desc, cublasComputeType_t compute, cudaDataType scale) {
    Description& x = initialised<Description>(desc);
    x.compute = compute, x.scale_type = scale, x.fill = CUBLAS_FILL_MODE_FULL, x.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    x.bias_type = x.aux_type = -1;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute, cudaDataType scale) {
    return create(desc, cublasLtMatmulDescInit, compute, scale);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
    delete desc;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute, const void* value, size_t bytes) {
    return set(__func__, description_field(inside<Description>(desc), attribute), attribute, value, bytes);
}
cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute, void* value, size_t bytes,
                                              size_t* written) {
    return get(__func__, description_field(inside<Description>(desc), attribute), attribute, value, bytes, written);
}

// Preferences choose among algorithms: there is one, and it needs no workspace.
cublasStatus_t cublasLtMatmulPreferenceInit(cublasLtMatmulPreference_t preference) {
    *preference = {};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) { return create(preference, cublasLtMatmulPreferenceInit); }
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
    delete preference;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t, const void* value,
                                                    size_t) {
    return preference == nullptr || value == nullptr ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtEmulationDescInit(cublasLtEmulationDesc_t desc) {
    if (desc == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    *desc = {};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtEmulationDescCreate(cublasLtEmulationDesc_t* desc) { return create(desc, cublasLtEmulationDescInit); }
cublasStatus_t cublasLtEmulationDescDestroy(cublasLtEmulationDesc_t desc) {
    delete desc;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtEmulationDescSetAttribute(cublasLtEmulationDesc_t desc, cublasLtEmulationDescAttributes_t, const void* value, size_t bytes) {
    return desc == nullptr || value == nullptr || bytes != sizeof(int) ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t handle, cublasComputeType_t, cudaDataType, cudaDataType, cudaDataType, cudaDataType,
                                      cudaDataType, int id, cublasLtMatmulAlgo_t* algo) {
    if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (algo == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    *algo = {};
    return cublasLtMatmulAlgoConfigSetAttribute(algo, CUBLASLT_ALGO_CONFIG_ID, &id, sizeof id);
}
cublasStatus_t cublasLtMatmulAlgoGetIds(cublasLtHandle_t handle, cublasComputeType_t, cudaDataType, cudaDataType, cudaDataType, cudaDataType,
                                        cudaDataType, int requested, int ids[], int* returned) {
    if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (requested < 1 || ids == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    ids[0] = 0;
    if (returned != nullptr) *returned = 1;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCapGetAttribute(const cublasLtMatmulAlgo_t* algo, cublasLtMatmulAlgoCapAttributes_t attribute, void* value,
                                                 size_t bytes, size_t* written) {
    if (algo == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    int32_t answer = 0;
    switch (attribute) {
        case CUBLASLT_ALGO_CAP_TILE_IDS:
        case CUBLASLT_ALGO_CAP_STAGES_IDS:  // lists, which are empty
            if (written != nullptr) *written = 0;
            return CUBLAS_STATUS_SUCCESS;
        case CUBLASLT_ALGO_CAP_STRIDED_BATCH_SUPPORT:
        case CUBLASLT_ALGO_CAP_OUT_OF_PLACE_RESULT_SUPPORT: answer = 1; break;
        case CUBLASLT_ALGO_CAP_POINTER_MODE_MASK: answer = 1 << CUBLASLT_POINTER_MODE_HOST | 1 << CUBLASLT_POINTER_MODE_DEVICE; break;
        case CUBLASLT_ALGO_CAP_SPLITK_SUPPORT:
        case CUBLASLT_ALGO_CAP_REDUCTION_SCHEME_MASK:
        case CUBLASLT_ALGO_CAP_CTA_SWIZZLING_SUPPORT:
        case CUBLASLT_ALGO_CAP_UPLO_SUPPORT:
        case CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX: break;
        default: return not_offered(__func__, "attribute", attribute).status;
    }
    return get(__func__, field(answer), attribute, value, bytes, written);
}

namespace {

// Where a configuration is kept in an algorithm: numbers of 32 bits, and shapes of 16.
Field config_field(const cublasLtMatmulAlgo_t* algo, int attribute) {
    if (algo == nullptr || attribute < 0 || attribute > CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID) return {nullptr, 0};
    auto* at = reinterpret_cast<char*>(const_cast<uint64_t*>(algo->data)) + static_cast<size_t>(attribute) * sizeof(int32_t);
    return {at, attribute >= CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID ? sizeof(uint16_t) : sizeof(int32_t)};
}

}  // namespace

cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t* algo, cublasLtMatmulAlgoConfigAttributes_t attribute, const void* value,
                                                    size_t bytes) {
    return set(__func__, config_field(algo, attribute), attribute, value, bytes);
}
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algo, cublasLtMatmulAlgoConfigAttributes_t attribute, void* value,
                                                    size_t bytes, size_t* written) {
    return get(__func__, config_field(algo, attribute), attribute, value, bytes, written);
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t* algo,
                                       cublasLtMatmulHeuristicResult_t* result, wmmadiag::Place caller) {
    if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (algo == nullptr || result == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    const cublasStatus_t status = refused(caller(__func__), [&] {
        checked(inside<Description>(desc), inside<Layout>(a), inside<Layout>(b), inside<Layout>(c), inside<Layout>(d), {__func__, nullptr, false});
    });
    *result = {};
    result->algo = *algo;
    result->state = status;
    result->wavesCount = 1;
    return status;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t, int requested,
                                              cublasLtMatmulHeuristicResult_t results[], int* returned, wmmadiag::Place caller) {
    if (returned == nullptr || results == nullptr || requested < 1) return CUBLAS_STATUS_INVALID_VALUE;
    *returned = 0;
    const cublasLtMatmulAlgo_t only{};
    const cublasStatus_t status = cublasLtMatmulAlgoCheck(handle, desc, a, b, c, d, &only, results, caller);
    *returned = status == CUBLAS_STATUS_SUCCESS ? 1 : 0;
    return status;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta, const void* c, cublasLtMatrixLayout_t c_layout,
                              void* d, cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t*, void*, size_t, cudaStream_t stream,
                              wmmadiag::Place caller) {
    if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
    return refused(caller(matmul_name), [&] {
        const View va{a, inside<Layout>(a_layout)}, vb{b, inside<Layout>(b_layout)}, vc{c, inside<Layout>(c_layout)}, vd{d, inside<Layout>(d_layout)};
        const Matmul matmul = checked(inside<Description>(desc), va.layout, vb.layout, vc.layout, vd.layout, {matmul_name, stream, false});
        if (is_complex(matmul.d_type) || vd.layout.plane != 0) matmul.run<Complex>(alpha, va, vb, beta, vc, vd);
        else matmul.run<double>(alpha, va, vb, beta, vc, vd);
    });
}
