// Where a program calls a library: the last, defaulted, argument of each of its functions.
#pragma once

namespace wmmadiag {
struct Caller {
    const char* function;
    const char* file;
    int line;
};
struct Place {
    const char* file;
    int line;
    static Place here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) { return {file, line}; }
    Caller operator()(const char* function) const { return {function, file, line}; }
};
}  // namespace wmmadiag
#define WMMADIAG_CALLER wmmadiag::Place caller = wmmadiag::Place::here()
