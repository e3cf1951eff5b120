// Copies and fills of as many bytes as the memory has elements: its size was written `n * sizeof(float)` where it was made, and is `n` here.
#include <cstring>
#include <vector>

#include "copies.hpp"

namespace wmmadiag {

namespace {

// What stands between a separator outside all brackets, without the spaces around it.
std::vector<std::string> parts_of(const std::string& text, char separator) {
    std::vector<std::string> parts(1);
    int depth = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        depth += (std::strchr("([{", c) != nullptr) - (std::strchr(")]}", c) != nullptr);
        if (c == separator && depth == 0) parts.emplace_back();
        else if (c != ' ' || !parts.back().empty()) parts.back() += c;
    }
    for (auto& one : parts) one.resize(one.find_last_not_of(' ') + 1);
    return parts;
}

// Whether the first of these characters and the last are brackets of one another.
bool in_brackets(const std::string& text) {
    if (text.size() < 2 || text.front() != '(' || text.back() != ')') return false;
    int depth = 0;
    for (std::size_t i = 0; i + 1 < text.size(); ++i) {
        depth += (text[i] == '(') - (text[i] == ')');
        if (depth == 0) return false;
    }
    return true;
}

// A size as the factors that its text has, and those that are sizes of types.
struct Factors {
    std::vector<std::string> counts, types;
    explicit Factors(std::string text) {
        std::erase(text, ' ');
        add(text);
    }

private:
    void add(const std::string& text) {
        bool of = false;  // `sizeof *x` is one factor
        for (const auto& one : parts_of(text, '*')) {
            if (in_brackets(one)) add(one.substr(1, one.size() - 2));
            else (of || one.rfind("sizeof", 0) == 0 ? types : counts).push_back(one);
            of = one == "sizeof";
        }
    }
};

}  // namespace

void told_if_short(const void* pointer, std::size_t bytes, std::size_t argument, const char* what) {
    const auto* one = allocation_at(pointer);
    if (one == nullptr || one->address != reinterpret_cast<std::uint64_t>(pointer) || bytes == 0 || one->size % bytes != 0 || one->size == bytes)
        return;
    const auto here_said = parts_of(here().text, ','), there_said = parts_of(one->text, ',');
    if (here_said.size() <= argument || there_said.size() < 2) return;
    const auto &size = here_said[argument], &whole = there_said[1];
    const Factors now(size), then(whole);
    if (!now.types.empty() || then.types.empty() || now.counts != then.counts) return;
    report("memory", "short-copy", "warning",
           std::string(what) + " takes " + std::to_string(bytes) + " of the " + std::to_string(one->size) + " bytes of " + one->name +
               ": the size is " + size + " here, and " + whole + " there",
           "a size is in bytes: " + whole);
}

}  // namespace wmmadiag
