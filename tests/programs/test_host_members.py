"""Classes that hold strings and containers of the host, of which device code uses the rest: their layout is kept."""

from __future__ import annotations

from pathlib import Path

from command import run_program

HELD = r"""#include <cstdio>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>
struct Stateful {
    void* a;
    void operator()(float*) const {}
};
struct Empty {
    void operator()(float*) const {}
};
struct All {
    char c0;
    std::string a = "none";
    std::vector<int> b{1, 2, 3};
    char c1;
    std::vector<bool> c;
    std::map<std::string, int> d;
    std::set<int> e;
    std::unordered_map<int, std::string> f;
    std::list<int> g;
    std::deque<float> h;
    std::shared_ptr<int> i;
    std::unique_ptr<float> j;
    std::unique_ptr<float, Empty> k;
    std::unique_ptr<float, Stateful> l;
    std::unique_ptr<float, void (*)(float*)> m{nullptr, nullptr};
    std::unique_ptr<float[]> n;
    std::function<void(int)> o;
    std::weak_ptr<int> p;
    int last = 5;
    struct Inner {
        int v;
        __device__ int twice() const { return 2 * v; }
    };
    Inner inner{1};
    void grow() { b.push_back(last); }
};
__global__ void k(All* x, size_t* s, All::Inner given) {
    s[0] = sizeof(All);
    s[1] = (char*)&x->last - (char*)x;
    s[2] = x->last + given.twice() + x->inner.twice();
}
int main() {
    char* memory;
    size_t* s;
    cudaMallocManaged(&memory, sizeof(All));
    cudaMallocManaged(&s, 3 * sizeof(size_t));
    All* x = new (memory) All;
    x->grow();
    k<<<1, 1>>>(x, s, {20});
    cudaDeviceSynchronize();
    std::printf("%d %d %zu\n", s[0] == sizeof(All), s[1] == size_t((char*)&x->last - (char*)x), s[2]);
}
"""


def test_members_of_the_hosts_library_keep_the_layout(tmp_path: Path) -> None:
    done = run_program(tmp_path, HELD)
    assert (done.stdout, done.returncode) == ("1 1 47\n", 0), done.stderr


def test_what_they_can_do_is_the_hosts(tmp_path: Path) -> None:
    text = HELD.replace("s[0] = sizeof(All);", "s[0] = x->b.size();")
    done = run_program(tmp_path, text)
    assert done.returncode == 2 and 'has no member "size"' in done.stderr, done.stderr
