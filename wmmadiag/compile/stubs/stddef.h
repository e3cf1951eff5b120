#ifndef WMMADIAG_STDDEF_H
#define WMMADIAG_STDDEF_H
#ifndef NULL
#define NULL 0
#endif
#ifndef offsetof
#define offsetof(type, member) __builtin_offsetof(type, member)
#endif
typedef decltype((char *)0 - (char *)0) ptrdiff_t;
namespace std {
using ::ptrdiff_t;
using ::size_t;
typedef decltype(nullptr) nullptr_t;
enum class byte : unsigned char {};
}
#endif
