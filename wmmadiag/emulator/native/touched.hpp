// What a launch did to one buffer, element by element: which block wrote it, whether another one read or wrote it too, and what must be
// put back before the next launch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace wmmadiag {

inline constexpr std::uint32_t nobody = 0;
inline constexpr std::uint32_t several = 0xffffffffu;

// The blocks of a launch in groups: those that touch what another one of them writes are in one. A group's name is its first block.
class BlockGroups {
public:
    explicit BlockGroups(std::uint64_t blocks = 0) : parent_(blocks) { std::iota(parent_.begin(), parent_.end(), 0u); }

    [[nodiscard]] std::uint32_t of(std::uint32_t block) const {
        while (parent_[block] != block) block = parent_[block];
        return block;
    }
    void join(std::uint32_t one, std::uint32_t other) {
        one = of(one);
        other = of(other);
        parent_[std::max(one, other)] = std::min(one, other);
    }
    // Each block's group is found in one step then.
    void settle() {
        for (std::uint32_t b = 0; b < parent_.size(); ++b) parent_[b] = of(b);
    }
    [[nodiscard]] std::size_t blocks() const { return parent_.size(); }

private:
    std::vector<std::uint32_t> parent_;  // never a later block
};

// Group + 1 whose blocks wrote, and read, each element of a buffer in one whole launch, or `nobody`. Reads are known of `reads` only.
struct Sharers {
    std::vector<std::uint32_t> writer, reader;
};

// Of one buffer, for one thread: blocks run one after another.
class Touched {
public:
    static constexpr std::uint64_t page = 1024;  // bytes put back at once

    // `bytes`: of the buffer; `item`: of an element of it, a power of two, at most `page`.
    void start(std::uint64_t bytes, std::uint64_t item) {
        shift_ = static_cast<unsigned>(__builtin_ctzll(item));
        now_.writer.assign((bytes + item - 1) / item, nobody);
        now_.reader.assign(now_.writer.size(), nobody);
        dirty_.assign((bytes + page - 1) / page, 0);
        pages_.clear();
    }

    // Who else touches what, as far as another launch of the same kernel tells, and whose blocks are one; nullptr: not known. Both outlive this.
    void expect(const Sharers* known, const BlockGroups* groups) {
        known_ = known != nullptr && !known->writer.empty() ? known : nullptr;
        groups_ = groups;
    }
    // Where blocks that share something are joined, until it is nullptr again; it outlives this.
    void join(BlockGroups* joined) { joined_ = joined; }
    // Whether to note what is read, which costs time where much is.
    void watch_reads(bool watch) { reads_ = watch; }

    // `bytes` at `offset` were read or written by a block.
    void read(std::uint64_t offset, std::uint64_t bytes, std::uint32_t block) {
        read_ = true;
        if (!reads_) read_shared_ |= written_;
        else read_shared_ |= note(now_.reader, now_.writer, known_ == nullptr ? nullptr : &known_->writer, offset, bytes, who(block));
    }
    void write(std::uint64_t offset, std::uint64_t bytes, std::uint32_t block) {
        written_ = true;
        write_shared_ |= read_ && !reads_;
        write_shared_ |= note(now_.writer, now_.writer, known_ == nullptr ? nullptr : &known_->writer, offset, bytes, who(block));
        if (reads_) write_shared_ |= others(now_.reader, offset, bytes, who(block));
        if (known_ != nullptr) write_shared_ |= others(known_->reader, offset, bytes, who(block));
        for (auto p = offset / page; p <= (offset + bytes - 1) / page; ++p) {
            if (dirty_[p] != 0) continue;
            dirty_[p] = 1;
            pages_.push_back(static_cast<std::uint32_t>(p));
        }
    }

    // Whether a group read what another one writes: then what it does hangs on their order.
    [[nodiscard]] bool read_shared() const { return read_shared_; }
    // Whether a group wrote what another one writes or reads: then what is left, or what the other one does, hangs on their order.
    [[nodiscard]] bool write_shared() const { return write_shared_; }
    // Whether a block wrote what several had read, of which it is not known which: then they are not joined.
    [[nodiscard]] bool unjoined() const { return unjoined_; }
    [[nodiscard]] bool written() const { return written_; }
    // What was touched, by groups of blocks.
    [[nodiscard]] Sharers shared_by(const BlockGroups& groups) const {
        auto found = now_;
        for (auto* by : {&found.writer, &found.reader})
            for (auto& one : *by)
                if (one != nobody && one != several) one = groups.of(one - 1) + 1;
        return found;
    }
    // Pages with a write, in order.
    [[nodiscard]] const std::vector<std::uint32_t>& pages() {
        std::sort(pages_.begin(), pages_.end());
        return pages_;
    }
    [[nodiscard]] std::uint32_t writer(std::uint64_t item) const { return now_.writer[item]; }

    // Forgets the launch.
    void forget() {
        const auto items = page >> shift_;
        for (const auto p : pages_) {
            dirty_[p] = 0;
            const auto first = now_.writer.begin() + static_cast<std::ptrdiff_t>(p * items);
            std::fill_n(first, std::min<std::uint64_t>(items, static_cast<std::uint64_t>(now_.writer.end() - first)), nobody);
        }
        pages_.clear();
        if (reads_ && read_) std::fill(now_.reader.begin(), now_.reader.end(), nobody);
        read_ = written_ = read_shared_ = write_shared_ = unjoined_ = false;
    }

private:
    // What stands for a block: its group.
    [[nodiscard]] std::uint32_t who(std::uint32_t block) const {
        return (groups_ != nullptr && block < groups_->blocks() ? groups_->of(block) : block) + 1;
    }
    void joined(std::uint32_t one, std::uint32_t other) {
        if (joined_ != nullptr && std::max(one, other) <= joined_->blocks()) joined_->join(one - 1, other - 1);
    }
    // Puts `who` down in `to`; whether somebody else writes there, in this launch or in the one that is known.
    bool note(std::vector<std::uint32_t>& to, const std::vector<std::uint32_t>& writers, const std::vector<std::uint32_t>* known,
              std::uint64_t offset, std::uint64_t bytes, std::uint32_t who) {
        bool shared = false;
        const auto last = (offset + bytes - 1) >> shift_;
        for (auto i = offset >> shift_; i <= last; ++i) {
            const auto wrote = writers[i];
            if (wrote != nobody && wrote != who) {
                shared = true;
                joined(wrote, who);
            }
            if (known != nullptr) shared |= (*known)[i] != nobody && (*known)[i] != who;
            // Where blocks are joined, the first one stands for all that wrote, or read what one of them wrote.
            if (to[i] == nobody) to[i] = who;
            else if (to[i] != who && (joined_ == nullptr || wrote == nobody)) to[i] = several;
        }
        return shared;
    }
    [[nodiscard]] bool others(const std::vector<std::uint32_t>& by, std::uint64_t offset, std::uint64_t bytes, std::uint32_t who) {
        if (by.empty()) return false;
        bool shared = false;
        const auto last = (offset + bytes - 1) >> shift_;
        for (auto i = offset >> shift_; i <= last; ++i) {
            if (by[i] == nobody || by[i] == who) continue;
            shared = true;
            if (by[i] == several) unjoined_ = true;
            else joined(by[i], who);
        }
        return shared;
    }

    unsigned shift_ = 0;
    bool read_ = false, written_ = false, read_shared_ = false, write_shared_ = false, unjoined_ = false, reads_ = true;
    Sharers now_;
    const Sharers* known_ = nullptr;
    const BlockGroups* groups_ = nullptr;
    BlockGroups* joined_ = nullptr;
    std::vector<std::uint8_t> dirty_;   // per page
    std::vector<std::uint32_t> pages_;  // the dirty ones
};

}  // namespace wmmadiag
