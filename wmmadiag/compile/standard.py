"""Standard headers that device code uses without including them, because under nvcc host headers bring them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from wmmadiag.compile.diagnostics import Diagnostic
from wmmadiag.compile.sources import SourceTree

_UNDEFINED = re.compile(r'identifier "(\w+)" is undefined')
_NO_MEMBER = re.compile(r'namespace "std" has no member (?:class )?"(\w+)"')
# Header of ours → the members of std that it has. ISO C++, "Headers".
_OURS = {
    "algorithm": "min max clamp",
    "array": "array",
    "functional": "plus minus multiplies divides modulus bit_and bit_or bit_xor equal_to not_equal_to less greater"
    " less_equal greater_equal logical_and logical_or negate bit_not logical_not identity invoke",
    "limits": "numeric_limits",
    "type_traits": "integral_constant bool_constant true_type false_type void_t type_identity type_identity_t enable_if"
    " enable_if_t conditional conditional_t decay decay_t common_type common_type_t invoke_result invoke_result_t"
    " make_signed make_signed_t make_unsigned make_unsigned_t underlying_type underlying_type_t aligned_storage"
    " aligned_storage_t conjunction conjunction_v disjunction disjunction_v negation negation_v alignment_of"
    " alignment_of_v rank rank_v extent extent_v is_constant_evaluated has_virtual_destructor",
    "utility": "swap exchange as_const pair make_pair move forward declval integer_sequence make_integer_sequence"
    " index_sequence make_index_sequence index_sequence_for in_place in_place_t",
    "wmmadiag_tuple.h": "tuple make_tuple tie get tuple_size tuple_size_v tuple_element tuple_element_t tuple_cat apply"
    " forward_as_tuple ignore make_from_tuple",
}
_MEMBERS = {name: header for header, names in _OURS.items() for name in names.split()}
# The rest of type_traits.
_TRAITS = re.compile(r"(?:is|add|remove)_\w+")
# Header of libcu++, which takes its second to compile → what it has that nvcc lets device code use of the host's
# library (`--expt-relaxed-constexpr`): its `cuda::std` stands for that. ISO C++23, "Library index", what is constexpr.
_LIBCU = {
    "algorithm": "adjacent_find all_of any_of binary_search copy copy_backward copy_if copy_n count count_if equal"
    " equal_range fill fill_n find find_end find_first_of find_if find_if_not for_each for_each_n generate generate_n"
    " includes is_heap is_partitioned is_permutation is_sorted is_sorted_until iter_swap lexicographical_compare"
    " lower_bound make_heap max_element merge min_element minmax minmax_element mismatch move_backward"
    " next_permutation none_of partial_sort partition partition_point pop_heap prev_permutation push_heap remove"
    " remove_copy remove_if replace replace_if reverse reverse_copy rotate search search_n set_difference"
    " set_intersection set_union sort_heap swap_ranges transform unique unique_copy upper_bound",
    "bit": "bit_cast popcount countl_zero countl_one countr_zero countr_one bit_ceil bit_floor bit_width has_single_bit"
    " rotl rotr byteswap endian",
    "bitset": "bitset",
    "cmath": "lerp",
    "complex": "complex arg conj norm polar proj real imag",
    "expected": "expected unexpected",
    "functional": "reference_wrapper ref cref not_fn",
    "iterator": "distance next prev advance size ssize data empty begin end cbegin cend rbegin rend reverse_iterator"
    " make_reverse_iterator iterator_traits",
    "memory": "addressof",
    "numeric": "accumulate inner_product iota gcd lcm midpoint partial_sum adjacent_difference reduce transform_reduce"
    " inclusive_scan exclusive_scan",
    "optional": "optional nullopt nullopt_t make_optional",
    "ratio": "ratio",
    "span": "span dynamic_extent as_bytes",
    "string_view": "string_view basic_string_view",
    "utility": "to_underlying unreachable cmp_equal cmp_not_equal cmp_less cmp_greater cmp_less_equal cmp_greater_equal"
    " in_range",
    "variant": "variant visit holds_alternative get_if monostate variant_size variant_size_v variant_alternative_t",
}
_OF_LIBCU = {name: header for header, names in _LIBCU.items() for name in names.split()}
_LIBCU_STUB = re.compile(r"wmmadiag_std/(\w+)")
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
        if member and (member[1] in _MEMBERS or _TRAITS.fullmatch(member[1])):
            found.add(_MEMBERS.get(member[1], "type_traits"))
        elif header := next((one for begin, one in _LIBRARIES.items() if name and name[1].startswith(begin)), ""):
            found.add(header)
        elif macro and macro.lastgroup:
            found.add(macro.lastgroup)
    return found


def from_libcu(errors: Iterable[Diagnostic]) -> set[str]:
    """The names of headers (`text_of` has their texts) that bring members of std which some errors find missing."""
    members = (_NO_MEMBER.search(error.message) for error in errors)
    return {f"wmmadiag_std/{one[1]}" for one in members if one and one[1] in _OF_LIBCU}


def text_of(name: str) -> bytes | None:
    """The text of such a header; None for any other."""
    found = _LIBCU_STUB.fullmatch(name)
    if found is None:
        return None
    lines = (f"#include <cuda/std/{_OF_LIBCU[found[1]]}>", f"namespace std {{ using cuda::std::{found[1]}; }}", "")
    return "\n".join(lines).encode()


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
