// What a launch did to one buffer, element by element: which block wrote it, whether another one read or wrote it too, and what must be
// put back before the next launch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace wmmadiag {

inline constexpr std::uint32_t nobody = 0;
inline constexpr std::uint32_t several = 0xffffffffu;

// Block + 1 that wrote, and that read, each element of a buffer in one whole launch; `nobody` or `several`. Reads are known of `reads` only.
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

    // Who else touches what, as far as another launch of the same kernel tells; nullptr: not known. It outlives this.
    void expect(const Sharers* known) { known_ = known != nullptr && !known->writer.empty() ? known : nullptr; }
    // Whether to note what is read, which costs time where much is.
    void watch_reads(bool watch) { reads_ = watch; }

    // `bytes` at `offset` were read or written by a block.
    void read(std::uint64_t offset, std::uint64_t bytes, std::uint32_t block) {
        read_ = true;
        if (!reads_) read_shared_ |= written_;
        else read_shared_ |= note(now_.reader, now_.writer, known_ == nullptr ? nullptr : &known_->writer, offset, bytes, block + 1);
    }
    void write(std::uint64_t offset, std::uint64_t bytes, std::uint32_t block) {
        written_ = true;
        write_shared_ |= read_ && !reads_;
        write_shared_ |= note(now_.writer, now_.writer, known_ == nullptr ? nullptr : &known_->writer, offset, bytes, block + 1);
        if (reads_) write_shared_ |= others(now_.reader, offset, bytes, block + 1);
        if (known_ != nullptr) write_shared_ |= others(known_->reader, offset, bytes, block + 1);
        for (auto p = offset / page; p <= (offset + bytes - 1) / page; ++p) {
            if (dirty_[p] != 0) continue;
            dirty_[p] = 1;
            pages_.push_back(static_cast<std::uint32_t>(p));
        }
    }

    // Whether a block read what another one writes: then what it does hangs on their order.
    [[nodiscard]] bool read_shared() const { return read_shared_; }
    // Whether a block wrote what another one writes or reads: then what is left, or what the other one does, hangs on their order.
    [[nodiscard]] bool write_shared() const { return write_shared_; }
    [[nodiscard]] bool written() const { return written_; }
    [[nodiscard]] const Sharers& now() const { return now_; }
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
        read_ = written_ = read_shared_ = write_shared_ = false;
    }

private:
    // Puts `who` down in `to`; whether somebody else writes there, in this launch or in the one that is known.
    bool note(std::vector<std::uint32_t>& to, const std::vector<std::uint32_t>& writers, const std::vector<std::uint32_t>* known,
              std::uint64_t offset, std::uint64_t bytes, std::uint32_t who) const {
        bool shared = false;
        const auto last = (offset + bytes - 1) >> shift_;
        for (auto i = offset >> shift_; i <= last; ++i) {
            const auto wrote = writers[i];
            shared |= wrote != nobody && wrote != who;
            if (known != nullptr) shared |= (*known)[i] != nobody && (*known)[i] != who;
            to[i] = to[i] == nobody || to[i] == who ? who : several;
        }
        return shared;
    }
    [[nodiscard]] bool others(const std::vector<std::uint32_t>& by, std::uint64_t offset, std::uint64_t bytes, std::uint32_t who) const {
        if (by.empty()) return false;
        bool shared = false;
        const auto last = (offset + bytes - 1) >> shift_;
        for (auto i = offset >> shift_; i <= last; ++i) shared |= by[i] != nobody && by[i] != who;
        return shared;
    }

    unsigned shift_ = 0;
    bool read_ = false, written_ = false, read_shared_ = false, write_shared_ = false, reads_ = true;
    Sharers now_;
    const Sharers* known_ = nullptr;
    std::vector<std::uint8_t> dirty_;   // per page
    std::vector<std::uint32_t> pages_;  // the dirty ones
};

}  // namespace wmmadiag
