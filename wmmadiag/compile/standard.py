"""Standard headers that device code uses without including them, because under nvcc host headers bring them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from wmmadiag.compile.diagnostics import Diagnostic
from wmmadiag.compile.sources import SourceTree

_UNDEFINED = re.compile(r'identifier "(\w+)" is undefined')
_NO_MEMBER = re.compile(r'namespace "std" has no member (?:class )?"(\w+)"')
# Member of std → the header of ours that has it. ISO C++, "Headers".
_MEMBERS: Mapping[str, str] = {
    **dict.fromkeys(("min", "max", "clamp"), "algorithm"),
    **dict.fromkeys(("swap", "pair", "make_pair", "exchange", "index_sequence", "make_index_sequence"), "utility"),
    **dict.fromkeys(("move", "forward", "declval", "integer_sequence", "make_integer_sequence"), "utility"),
    **dict.fromkeys(
        ("is_same", "is_same_v", "conditional", "conditional_t", "enable_if", "enable_if_t"), "type_traits"
    ),
    **dict.fromkeys(("integral_constant", "true_type", "false_type", "decay_t", "remove_reference_t"), "type_traits"),
    **dict.fromkeys(
        ("is_integral_v", "is_floating_point_v", "is_convertible_v", "void_t", "remove_cv_t"), "type_traits"
    ),
    **dict.fromkeys(("is_trivially_copyable", "is_trivially_copyable_v", "bool_constant"), "type_traits"),
    **dict.fromkeys(("tuple", "make_tuple", "get", "tie", "tuple_size", "tuple_element"), "wmmadiag_tuple.h"),
    "numeric_limits": "limits",
    "array": "array",
}
# What a library reads only where its compiler is not NVRTC is told by the names that follow from it.
_LIBRARIES: Mapping[str, str] = {
    "curand": "curand_kernel.h",
    # CUDA C++ Programming Guide, "Warp Shuffle Functions": taken out with CUDA 9 for sm_70 and later.
    **dict.fromkeys(("__shfl", "__any", "__all", "__ballot"), "wmmadiag_old_warps.h"),
}
_MACROS = re.compile(
    r"(?P<cfloat>(?:FLT|DBL)_\w+)|(?P<climits>(?:U?(?:INT|LONG|LLONG|SHRT|CHAR)|SCHAR)_(?:MAX|MIN)|CHAR_BIT)"
    r"|(?P<cmath>M_\w+|INFINITY|NAN)|(?P<cstdint>U?INT(?:8|16|32|64)_(?:MAX|MIN))"
)
# What a source's own header, which is not there, is likely to have included: a name that the rest has → the header of
# CUDA that it comes from (CUDA 13, include/).
_OF_CUDA: Mapping[str, str] = {
    r"half2?|__half2?": "cuda_fp16.h",
    r"(?:__)?nv_bfloat16\w*": "cuda_bf16.h",
    r"__nv_fp8\w*": "cuda_fp8.h",
    r"nvcuda|wmma": "mma.h",
    r"cooperative_groups": "cooperative_groups.h",
}
_USED = re.compile(rb"std::(\w+)")


def missing_headers(errors: Iterable[Diagnostic]) -> set[str]:
    """The headers that bring what some errors find missing."""
    found = set()
    for error in errors:
        member, name = _NO_MEMBER.search(error.message), _UNDEFINED.search(error.message)
        macro = _MACROS.fullmatch(name[1]) if name else None
        if member and member[1] in _MEMBERS:
            found.add(_MEMBERS[member[1]])
        elif header := next((one for begin, one in _LIBRARIES.items() if name and name[1].startswith(begin)), ""):
            found.add(header)
        elif macro and macro.lastgroup:
            found.add(macro.lastgroup)
    return found


def stand_in(tree: SourceTree) -> bytes:
    """The text for a header that is not there: it includes what the rest of the source uses of CUDA's."""
    text = b"\n".join(file.data for file in tree.files())
    used = [header for names, header in _OF_CUDA.items() if re.search(rf"\b(?:{names})\b".encode(), text)]
    return "".join(f"#include <{header}>\n" for header in used).encode()


def likely_headers(tree: SourceTree) -> list[str]:
    """The headers that libraries' headers will be found to want: a compilation of theirs is too long to be tried."""
    if not tree.outside:
        return []
    used = {match[1].decode() for file in tree.every() for match in _USED.finditer(file.data)}
    # Of a tuple the libraries have one of their own for device code: that of std is mentioned for the host.
    return sorted({_MEMBERS[name] for name in used if name in _MEMBERS} - {"wmmadiag_tuple.h"})
