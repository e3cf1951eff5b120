/* assert is built into the compiler, as below. NDEBUG turns it off where this is read, each time (C11 7.2). */
#ifdef NDEBUG
#undef assert
#define assert(...) ((void)0)
#undef WMMADIAG_ASSERTS_OFF
#define WMMADIAG_ASSERTS_OFF
#elif defined(WMMADIAG_ASSERTS_OFF)
#undef WMMADIAG_ASSERTS_OFF
#undef assert
#define assert(...) \
  ((__VA_ARGS__) ? static_cast<void>(0) : __assertfail(#__VA_ARGS__, __FILE__, __LINE__, __PRETTY_FUNCTION__, sizeof(char)))
#endif
