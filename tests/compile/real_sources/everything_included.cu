// kernel: kernel
#include <bits/stdc++.h>
using namespace std;
__global__ void kernel(float *x) { x[0] = max(x[1], FLT_MIN) + numeric_limits<int>::max(); }  // HERE
int main() { vector<int> v(3); cout << v.size() << endl; }
