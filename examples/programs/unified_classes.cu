// Unified memory: a base class whose new is managed, containers, hints, prefetch, attributes.
#include <cuda_runtime.h>
#include <cassert>
#include <cstdio>
#include <cstring>
#include <new>
#include <thread>

#define gpuErrchk(ans)                        \
    {                                         \
        gpuAssert((ans), __FILE__, __LINE__); \
    }
inline void gpuAssert(cudaError_t code, const char* file, int line, bool abort = true) {
    if (code != cudaSuccess) {
        fprintf(stderr, "GPUassert: %s %s %d\n", cudaGetErrorString(code), file, line);
        if (abort) exit(code);
    }
}

class Managed {
public:
    void* operator new(size_t len) {
        void* ptr;
        gpuErrchk(cudaMallocManaged(&ptr, len));
        gpuErrchk(cudaDeviceSynchronize());
        return ptr;
    }
    void operator delete(void* ptr) {
        gpuErrchk(cudaDeviceSynchronize());
        gpuErrchk(cudaFree(ptr));
    }
    void* operator new[](size_t len) { return operator new(len); }
    void operator delete[](void* ptr) { operator delete(ptr); }
};

class String : public Managed {
    int length;
    char* data;
    void _realloc(int len) {
        if (length < len) {
            if (data) gpuErrchk(cudaFree(data));
            gpuErrchk(cudaMallocManaged(&data, len + 1));
            length = len;
        }
    }

public:
    String() : length(0), data(0) {}
    String(const String& s) : length(0), data(0) {
        _realloc(s.length);
        strcpy(data, s.data);
    }
    ~String() {
        if (data) cudaFree(data);
    }
    String& operator=(const char* s) {
        _realloc((int)strlen(s));
        strcpy(data, s);
        return *this;
    }
    __host__ __device__ const char* c_str() const { return data; }
    __host__ __device__ int size() const { return length; }
    __host__ __device__ char& operator[](int pos) { return data[pos]; }
};

struct DataElement : public Managed {
    String name;
    int value;
};

__global__ void Kernel_by_pointer(DataElement* elem) {
    printf("On device by pointer:       name=%s, value=%d\n", elem->name.c_str(), elem->value);
    elem->name[0] = 'p';
    elem->value++;
}
__global__ void Kernel_by_ref(DataElement& elem) {
    printf("On device by ref:           name=%s, value=%d\n", elem.name.c_str(), elem.value);
    elem.name[0] = 'r';
    elem.value++;
}
__global__ void Kernel_by_value(DataElement elem) { printf("On device by value:         name=%s, value=%d\n", elem.name.c_str(), elem.value); }

struct Node : public Managed {
    float key;
    Node *left, *right;
    Node(float k) : key(k), left(nullptr), right(nullptr) {}
};
static void insert(Node*& root, float key) {
    Node** at = &root;
    while (*at) at = key < (*at)->key ? &(*at)->left : &(*at)->right;
    *at = new Node(key);
}
static void destroy(Node* n) {
    if (!n) return;
    destroy(n->left);
    destroy(n->right);
    delete n;
}

__device__ __managed__ int found = 0;
__managed__ float table[256];
__constant__ float scale = 2.5f;

__global__ void lookup(const Node* root, const float* keys, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const Node* at = root;
        while (at && at->key != keys[i]) at = keys[i] < at->key ? at->left : at->right;
        if (at) atomicAdd_system(&found, 1);
    }
}
__global__ void fill(float* v, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) v[i] = i * scale + table[i % 256];
}

int main(void) {
    int dev;
    gpuErrchk(cudaGetDevice(&dev));
    int managed = 0, concurrent = 0, pageable = 0;
    gpuErrchk(cudaDeviceGetAttribute(&managed, cudaDevAttrManagedMemory, dev));
    gpuErrchk(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, dev));
    gpuErrchk(cudaDeviceGetAttribute(&pageable, cudaDevAttrPageableMemoryAccess, dev));
    printf("managed %d concurrent %d\n", managed, concurrent);
    if (!managed) {
        printf("unified memory not supported, waived\n");
        return 2;
    }

    DataElement* e = new DataElement;
    e->value = 10;
    e->name = "hello";
    Kernel_by_pointer<<<1, 1>>>(e);
    gpuErrchk(cudaDeviceSynchronize());
    assert(e->value == 11 && e->name.c_str()[0] == 'p');
    Kernel_by_ref<<<1, 1>>>(*e);
    gpuErrchk(cudaDeviceSynchronize());
    Kernel_by_value<<<1, 1>>>(*e);
    gpuErrchk(cudaDeviceSynchronize());
    printf("On host:                    name=%s, value=%d\n", e->name.c_str(), e->value);
    bool ok = e->value == 12 && !strcmp(e->name.c_str(), "rello");
    delete e;

    Node* root = nullptr;
    float* keys;
    const int n = 500;
    gpuErrchk(cudaMallocManaged((void**)&keys, n * sizeof(float), cudaMemAttachGlobal));
    unsigned s = 1;
    for (int i = 0; i < n; i++) {
        s = s * 1664525u + 1013904223u;
        keys[i] = (float)(s >> 8);
        if (i % 2 == 0) insert(root, keys[i]);
    }
#if CUDART_VERSION >= 13000
    cudaMemLocation where;
    where.type = cudaMemLocationTypeDevice;
    where.id = dev;
    gpuErrchk(cudaMemAdvise(keys, n * sizeof(float), cudaMemAdviseSetReadMostly, where));
    gpuErrchk(cudaMemPrefetchAsync(keys, n * sizeof(float), where, 0, 0));
#else
    gpuErrchk(cudaMemAdvise(keys, n * sizeof(float), cudaMemAdviseSetReadMostly, dev));
    gpuErrchk(cudaMemPrefetchAsync(keys, n * sizeof(float), dev, 0));
#endif
    lookup<<<4, 64>>>(root, keys, n);
    gpuErrchk(cudaDeviceSynchronize());
    printf("found %d of %d\n", found, n);
    ok = ok && found == n / 2;
    int readMostly = 0;
    gpuErrchk(cudaMemRangeGetAttribute(&readMostly, sizeof(int), cudaMemRangeAttributeReadMostly, keys, n * sizeof(float)));
    ok = ok && readMostly == 1;
    cudaPointerAttributes at;
    gpuErrchk(cudaPointerGetAttributes(&at, keys));
    ok = ok && at.type == cudaMemoryTypeManaged && at.devicePointer == at.hostPointer;
    destroy(root);
    gpuErrchk(cudaFree(keys));

    // streams with memory attached to each
    cudaStream_t st[3];
    float* v[3];
    for (int i = 0; i < 256; i++) table[i] = (float)i;
    for (int i = 0; i < 3; i++) {
        gpuErrchk(cudaStreamCreate(&st[i]));
        gpuErrchk(cudaMallocManaged(&v[i], 1000 * sizeof(float), cudaMemAttachHost));
        gpuErrchk(cudaStreamAttachMemAsync(st[i], v[i], 0, cudaMemAttachSingle));
        gpuErrchk(cudaStreamSynchronize(st[i]));
    }
    for (int i = 0; i < 3; i++) fill<<<4, 256, 0, st[i]>>>(v[i], 1000);
    for (int i = 0; i < 3; i++) {
        gpuErrchk(cudaStreamSynchronize(st[i]));
        for (int j = 0; j < 1000; j++)
            if (v[i][j] != j * 2.5f + j % 256) ok = false;
        gpuErrchk(cudaFree(v[i]));
        gpuErrchk(cudaStreamDestroy(st[i]));
    }
    printf("%s\n", ok ? "Test passed." : "Test failed!");
    cudaDeviceReset();
    return ok ? 0 : 1;
}
