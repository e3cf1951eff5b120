// kernel: kernel
#include <chrono>
#include <vector>
using std::vector;
using std::cout;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
typedef std::vector<float> Floats;
using Matrix = vendor_matrix<float>;
__global__ void kernel(float *x) { x[threadIdx.x] = 1.5f; }  // HERE
Floats run(const vector<int> &v) { auto t = Clock::now(); return {}; }
