#include "races_reversed.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace wmmadiag::races {

Reversal::Reversal(const Shared& shared) : wanted_(shared.program->code().size()) {
    const auto& table = shared.check_table;
    constexpr std::size_t width = 8;
    if (table.size() < 2 || table[0] < 0 || table[0] > 2 || table[1] < 0 || static_cast<std::size_t>(table[1]) > table.size())
        throw std::invalid_argument("pairs of instructions");
    turn_ = static_cast<Turn>(table[0]);
    const auto end = 2 + 2 * static_cast<std::size_t>(table[1]);
    if (end > table.size() || (table.size() - end) % width != 0) throw std::invalid_argument("pairs of instructions");
    for (std::size_t i = end; i < table.size(); i += width) {
        Future one;
        one.at = {static_cast<std::uint64_t>(table[i]), static_cast<std::uint64_t>(table[i + 1])};
        one.reader = static_cast<std::uint64_t>(table[i + 2]);
        one.writer_block = static_cast<std::uint32_t>(table[i + 3]);
        one.pc = static_cast<std::uint32_t>(table[i + 4]);
        one.granule = static_cast<std::size_t>(std::clamp<std::int64_t>(table[i + 5], 1, 16));
        std::memcpy(one.bytes.data(), &table[i + 6], 8);
        std::memcpy(one.bytes.data() + 8, &table[i + 7], 8);
        futures_of_[one.at].push_back(futures_.size());
        futures_.push_back(one);
    }
    for (std::size_t i = 2; i < end; i += 2) {
        for (const auto pc : {table[i], table[i + 1]}) {
            if (pc < 0 || static_cast<std::size_t>(pc) >= wanted_.size()) throw std::invalid_argument("no such instruction");
            wanted_[static_cast<std::size_t>(pc)] = true;
        }
        pairs_.insert(std::minmax(static_cast<std::uint32_t>(table[i]), static_cast<std::uint32_t>(table[i + 1])));
    }
}

void Reversal::before(Space space, std::uint32_t block, const std::vector<std::pair<std::uint64_t, std::byte*>>& places, std::size_t granule) {
    writing_.clear();
    for (const auto& [address, here] : places) writing_.emplace_back(key(space, block, address), std::vector<std::byte>(here, here + granule));
}

// A copy to shared memory begins: what is there until it lands.
void Reversal::before_copy(std::uint32_t block, std::uint64_t address, const std::byte* here, std::size_t bytes, std::size_t granule) {
    for (std::size_t i = 0; i + granule <= bytes; i += granule)
        before_[key(Space::shared, block, address + i)] = std::vector<std::byte>(here + i, here + i + granule);
}

void Reversal::after() {
    for (auto& [at, bytes] : writing_) before_[at] = std::move(bytes);
    writing_.clear();
}

void Reversal::saw(Space space, std::uint32_t block, std::uint64_t address, const std::byte* here, std::size_t granule, std::uint64_t party,
                   std::uint32_t stamp) {
    seen_[key(space, block, address)][party] = {stamp, std::vector<std::byte>(here, here + granule)};
}

const std::byte* Reversal::seen(Space space, std::uint32_t block, std::uint64_t address, std::uint64_t party, std::uint32_t stamp) const {
    const auto at = seen_.find(key(space, block, address));
    if (at == seen_.end()) return nullptr;
    const auto one = at->second.find(party);
    return one == at->second.end() || one->second.first != stamp ? nullptr : one->second.second.data();
}

void Reversal::reverse(Space space, std::uint32_t block, std::uint64_t address, std::byte* here, std::size_t granule, std::uint64_t reader,
                       std::uint64_t writer) {
    const auto at = key(space, block, address);
    const auto old = before_.find(at);
    if (old == before_.end() || old->second.size() != granule) return;
    if (!served_.emplace(at.place, at.address, reader, writer).second) return;
    keep(here, {here, granule});
    std::memcpy(here, old->second.data(), granule);
    // If it writes as well, it is not the last write there: that stays the other one.
    std::erase_if(writing_, [&](const auto& one) { return one.first == at; });
}

void Reversal::note(Space space, std::uint32_t block, std::uint64_t address, const std::byte* here, std::size_t granule, std::uint64_t reader,
                    std::uint32_t writer_block, std::uint32_t pc) {
    Future one;
    one.at = key(space, block, address);
    if (futures_.size() == most_futures || granule > one.bytes.size()) return;
    if (!noted_.emplace(one.at.place, one.at.address, reader).second) return;
    one.reader = reader;
    one.writer_block = writer_block;
    one.pc = pc;
    one.here = here;
    one.granule = granule;
    futures_.push_back(one);
}

void Reversal::written(std::uint32_t block, std::uint32_t pc, const std::byte* here, std::size_t bytes) {
    for (auto& one : futures_) {
        if (one.known || one.pc != pc || one.writer_block != block || one.here == nullptr) continue;
        if (here != nullptr && (one.here < here || one.here + one.granule > here + bytes)) continue;
        if (turn_ == Turn::reads) {
            one.known = one.foreseen && std::memcmp(one.bytes.data(), one.here, one.granule) == 0;
        } else {
            std::memcpy(one.bytes.data(), one.here, one.granule);
            one.known = true;
        }
    }
}

void Reversal::foresee(Space space, std::uint32_t block, std::uint64_t address, std::byte* here, std::size_t granule, std::uint64_t reader) {
    const auto found = futures_of_.find(key(space, block, address));
    if (found == futures_of_.end()) return;
    for (const auto index : found->second) {
        auto& one = futures_[index];
        if (one.reader != reader || one.granule != granule) continue;
        one.here = here;
        if (!one.foreseen) keep(here, {here, granule});
        std::memcpy(here, one.bytes.data(), granule);
        one.foreseen = true;
        return;
    }
}

std::vector<std::int64_t> Reversal::noted() const {
    std::vector<std::int64_t> rows;
    for (const auto& one : futures_) {
        if (!one.known) continue;
        std::array<std::int64_t, 2> words{};
        std::memcpy(words.data(), one.bytes.data(), sizeof words);
        for (const auto value :
             {static_cast<std::int64_t>(one.at.place), static_cast<std::int64_t>(one.at.address), static_cast<std::int64_t>(one.reader),
              std::int64_t{one.writer_block}, std::int64_t{one.pc}, static_cast<std::int64_t>(one.granule), words[0], words[1]})
            rows.push_back(value);
    }
    return rows;
}

bool Reversal::came_true() const {
    const auto foreseen = [](const Future& one) { return one.foreseen; };
    return std::any_of(futures_.begin(), futures_.end(), foreseen) &&
           std::all_of(futures_.begin(), futures_.end(), [](const Future& one) { return !one.foreseen || one.known; });
}

void Reversal::keep(std::byte* here, std::span<const std::byte> bytes) {
    kept_.emplace_back(here, std::vector<std::byte>(bytes.begin(), bytes.end()));
}

void Reversal::restore() {
    for (auto at = kept_.rbegin(); at != kept_.rend(); ++at) std::memcpy(at->first, at->second.data(), at->second.size());
    kept_.clear();
}

}  // namespace wmmadiag::races
