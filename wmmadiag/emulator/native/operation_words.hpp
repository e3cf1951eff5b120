// The words of an operation's name, for whoever watches it: "cvt.f16x2.f32" is cvt, first f16x2, last f32.
#pragma once

#include <algorithm>
#include <string_view>

namespace wmmadiag {

struct OperationWords {
    std::string_view op, rest, first, last;  // rest: all behind op; its first and its last word

    explicit OperationWords(std::string_view name)
        : op(name.substr(0, name.find('.'))),
          rest(name.substr(std::min(name.size(), op.size() + 1))),
          first(rest.substr(0, rest.find('.'))),
          last(rest.substr(rest.rfind('.') + 1)) {}
};

// Bytes that a value of a PTX type takes in a lane's register, of which none is shorter than 2; a predicate: 0, no type: 4.
inline unsigned type_bytes(std::string_view type) {
    if (type == "pred") return 0;
    unsigned count = 1;
    if (type.size() > 2 && type[type.size() - 2] == 'x') {
        count = static_cast<unsigned>(type.back() - '0');
        type.remove_suffix(2);
    }
    unsigned bits = 0;
    if (type.starts_with("e") || type.starts_with("ue")) {
        bits = type == "e2m1" ? 4 : 8;
    } else {
        const auto digits = type.find_first_of("0123456789");
        if (digits == type.npos) return 4;
        for (const char c : type.substr(digits)) {
            if (c < '0' || c > '9') break;
            bits = bits * 10 + static_cast<unsigned>(c - '0');
        }
    }
    return std::max(2u, bits * count / 8);
}

}  // namespace wmmadiag
