// kernel: kernel
#include <vector>
#include <map>
#include <functional>
static std::vector<float> g_cache;
std::map<int, int> g_table = {{1, 2}, {3, 4}};
int g_counter = 0, g_other{7};
static cudaStream_t g_stream;
const char *const g_names[] = {"a", "b"};
auto g_lambda = [](int x) { return x * 2; };
std::function<void(int)> g_function = [](int) { g_counter++; };
constexpr int kTile = 16;
const float kScale = 0.125f;
enum Layout { ROW, COL };
typedef unsigned int uint_alias;
using index_t = long long;
static_assert(kTile == 16, "tile");
__constant__ float c_table[4] = {1.f, 2.f, 3.f, 4.f};
__device__ int d_counter = 5;
__global__ void kernel(float *x, index_t n) {
  x[threadIdx.x] = c_table[n & 3] * kScale + kTile + COL + d_counter;  // HERE
}
