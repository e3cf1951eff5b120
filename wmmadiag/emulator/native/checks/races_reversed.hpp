// What another order of two accesses does: a run in which chosen pairs take place the other way round wherever nothing orders them.
//
// The later access runs on what was there before the earlier one, a write; then what that write had left is put back. Both orders are
// legal, so a result that changes by it is a result that no chip promises. The order of the rest of the run stays as it was.
//
// Where the earlier one is a read, it takes two runs: one notes what the later write leaves, the other lets the read find that already. The
// second is a legal run if the write leaves the same in it: then the read had no part in what it read.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../check.hpp"

namespace wmmadiag::races {

enum class Turn : std::uint8_t { writes, note, reads };

class Reversal {
public:
    // Shared::check_table: Turn; how many pairs; their pcs, two by two; for Turn::reads, what a run with Turn::note has noted.
    explicit Reversal(const Shared& shared);

    [[nodiscard]] Turn turn() const { return turn_; }

    [[nodiscard]] bool names(std::uint32_t one, std::uint32_t other) const { return pairs_.count(std::minmax(one, other)) != 0; }
    [[nodiscard]] bool wants(std::uint32_t pc) const { return pc < wanted_.size() && wanted_[pc]; }

    // Around an access that is about to be made: (address, host address) of the granules that it writes.
    void before(Space space, std::uint32_t block, const std::vector<std::pair<std::uint64_t, std::byte*>>& places, std::size_t granule);
    void after();
    // A read-modify-write of a warp, block << 32 | warp, finds this.
    void saw(Space space, std::uint32_t block, std::uint64_t address, const std::byte* here, std::size_t granule, std::uint64_t party,
             std::uint32_t stamp);
    // What it found; null: not known, or the warp has had another there since.
    [[nodiscard]] const std::byte* seen(Space space, std::uint32_t block, std::uint64_t address, std::uint64_t party, std::uint32_t stamp) const;
    void before_copy(std::uint32_t block, std::uint64_t address, const std::byte* here, std::size_t bytes, std::size_t granule);
    // In between: this granule as it was before its last write. `reader` has that once of each write.
    void reverse(Space space, std::uint32_t block, std::uint64_t address, std::byte* here, std::size_t granule, std::uint64_t reader,
                 std::uint64_t writer);
    // Turn::note: a write at `pc`, which is being made, comes after a read of the same place by (block, stamp).
    void note(Space space, std::uint32_t block, std::uint64_t address, const std::byte* here, std::size_t granule, std::uint64_t reader,
              std::uint32_t writer_block, std::uint32_t pc);
    // Turn::reads: (block, stamp) is about to read this granule.
    void foresee(Space space, std::uint32_t block, std::uint64_t address, std::byte* here, std::size_t granule, std::uint64_t reader);
    // A write at `pc` by a block has been made: of a copy at `here`, or of the last access.
    void written(std::uint32_t block, std::uint32_t pc, const std::byte* here = nullptr, std::size_t bytes = 0);
    // What Turn::note has noted, for the table of another run.
    [[nodiscard]] std::vector<std::int64_t> noted() const;
    // Turn::reads: whether something was foreseen, and came.
    [[nodiscard]] bool came_true() const;

    // These bytes are there when the access has been made.
    void keep(std::byte* here, std::span<const std::byte> bytes);
    void restore();

private:
    struct Key {
        std::uint64_t place, address;
        bool operator==(const Key&) const = default;
    };
    struct Hash {
        std::size_t operator()(const Key& key) const { return static_cast<std::size_t>((key.address ^ (key.place << 40)) * 0x9e3779b97f4a7c15u); }
    };
    static Key key(Space space, std::uint32_t block, std::uint64_t address) {
        return {std::uint64_t{block} << 2 | static_cast<unsigned>(space), address};
    }

    // What a later write leaves.
    struct Future {
        Key at;
        std::uint64_t reader = 0;
        std::uint32_t writer_block = 0, pc = 0;
        const std::byte* here = nullptr;
        std::size_t granule = 0;
        std::array<std::byte, 16> bytes{};
        bool known = false, foreseen = false;
    };
    static constexpr std::size_t most_futures = 1024;

    Turn turn_ = Turn::writes;
    std::vector<Future> futures_;
    std::set<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>> noted_;  // place, address, reader
    std::unordered_map<Key, std::vector<std::size_t>, Hash> futures_of_;
    std::set<std::pair<std::uint32_t, std::uint32_t>> pairs_;
    std::vector<bool> wanted_;
    std::unordered_map<Key, std::vector<std::byte>, Hash> before_;                                                   // the last write of a wanted pc
    std::unordered_map<Key, std::map<std::uint64_t, std::pair<std::uint32_t, std::vector<std::byte>>>, Hash> seen_;  // by party: stamp, bytes
    std::vector<std::pair<Key, std::vector<std::byte>>> writing_;  // what the access that is being made will overwrite
    std::vector<std::pair<std::byte*, std::vector<std::byte>>> kept_;
    std::set<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>> served_;  // place, address, reader, writer
};

}  // namespace wmmadiag::races
