// The order of the strong writes at an address, as far as it is forced.
#include "races.hpp"

namespace wmmadiag::races {

void Races::cohere(Coherence& at, std::uint64_t party, bool looks, bool replaces, bool writes, Stamp now) {
    const auto [found, fresh] = at.parties.try_emplace(party);
    parties_ += fresh ? 1 : 0;
    auto& own = found->second;
    if (looks) {
        own.read = now;
        own.from = at.chain;
        own.seen = at.version;
    }
    if (!writes) return;
    own.version = ++at.version;
    own.wrote = now;
    if (replaces) at.chain = own.version;
}

Coherence* Races::coherence_at(BlockState& b, Space space, std::uint64_t address) {
    auto& places = space == Space::global ? coherence_ : b.coherence;
    if (places.empty()) return nullptr;
    for (std::uint64_t mask = 0; mask < 16; mask = mask * 2 + 1)  // a granule within the access
        if (const auto at = places.find(address & ~mask); at != places.end()) return &at->second;
    return nullptr;
}

// The versions at an address after which what this warp does there comes by coherence: those that it, or somebody of whose accesses it
// knows, has seen there. For all earlier accesses at once: at a barrier of a grid there are as many as blocks.
Seen Races::seen_in_coherence(BlockState& b, unsigned warp, const Coherence& at) const {
    Seen seen;
    const auto add = [&](const Coherence::Party& party) {
        const auto same = std::find_if(seen.begin(), seen.end(), [&](const auto& one) { return one.first == party.from; });
        if (same == seen.end()) seen.emplace_back(party.from, party.seen);
        else same->second = std::max(same->second, party.seen);
    };
    const auto& own = b.warps[warp];
    if (const auto found = at.parties.find(std::uint64_t{b.index} << 32 | warp); found != at.parties.end()) add(found->second);
    for (const auto& [key, party] : at.parties) {
        const bool nothing_new =
            std::any_of(seen.begin(), seen.end(), [&party = party](const auto& one) { return one.first <= party.from && party.seen <= one.second; });
        if (nothing_new) continue;
        const auto whose = static_cast<std::uint32_t>(key >> 32);
        const auto* clock = whose == b.index ? &own.known : clock_of(own.foreign, whose);
        if (clock != nullptr && (*clock)[key & warp_mask] >= party.read) add(party);
    }
    return seen;
}

// Whether an earlier access at an address wrote one of these versions, or one before what its warp wrote there last, which is one.
bool Races::after_in_coherence(const Coherence& at, const Seen& seen, std::uint32_t block, Stamp earlier) {
    const auto other = at.parties.find(std::uint64_t{block} << 32 | (earlier & warp_mask));
    if (other == at.parties.end() || other->second.wrote < earlier) return false;
    const auto version = other->second.version;
    return std::any_of(seen.begin(), seen.end(), [&](const auto& one) { return one.first <= version && version <= one.second; });
}

bool Races::after_in_coherence(BlockState& b, unsigned warp, Space space, std::uint64_t address, std::uint32_t block, Stamp earlier) {
    const auto* at = coherence_at(b, space, address);
    return at != nullptr && after_in_coherence(*at, seen_in_coherence(b, warp, *at), block, earlier);
}

}  // namespace wmmadiag::races
