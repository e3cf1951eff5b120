// Tensor-core multiplications: rows of A and columns of B with the same indices along k give elements of a product.
#include <algorithm>
#include <cstring>

#include "provenance.hpp"

namespace wmmadiag::provenance {

namespace {

// Zero, and finite: what a bad element of the other operand does to the sum.
struct Magnitude {
    bool zero, finite;
};

Magnitude magnitude(Element type, const void* matrix, std::size_t index) {
    const auto word = [&](unsigned bytes) {
        std::uint64_t v = 0;
        std::memcpy(&v, static_cast<const std::byte*>(matrix) + index * bytes, bytes);
        return v;
    };
    switch (type) {
        case Element::f16: {
            const auto v = word(2);
            return {(v & 0x7fff) == 0, (v & 0x7c00) != 0x7c00};
        }
        case Element::bf16: {
            const auto v = word(2);
            return {(v & 0x7fff) == 0, (v & 0x7f80) != 0x7f80};
        }
        case Element::tf32:
        case Element::f32: {
            const auto v = word(4);
            return {(v & 0x7fffffff) == 0, (v & 0x7f800000) != 0x7f800000};
        }
        case Element::f64: {
            const auto v = word(8);
            return {v << 1 == 0, (v >> 52 & 0x7ff) != 0x7ff};
        }
        case Element::s32: return {word(4) == 0, true};
        case Element::s8:
        case Element::u8: return {word(1) == 0, true};
        default: return {(word(1) & 0x7f) == 0, true};
    }
}

constexpr unsigned most_k = 256;

// What the lines of an operand have in common, if they are all whole rows or columns with the same indices along k.
struct Uniform {
    std::uint32_t matrix = 0;
    Axis axis{};  // contracted
    bool residual = false;
    std::uint32_t k[most_k];
    std::uint32_t lines[64];
};

bool uniform(const Tag* tags, unsigned lines, unsigned k, Uniform& to) {
    const Tag first = tags[0];
    if (k < 2 || k > most_k || lines > 64 || !is_element(first) || !is_regular(first)) return false;
    const Tag step = tags[1] ^ first;
    to.axis = (step & (index_mask << row_shift)) != 0 ? Axis::row : Axis::column;
    const Tag varies = index_mask << (to.axis == Axis::row ? row_shift : 0);
    Tag difference = 0;
    for (unsigned i = 0; i < k; ++i) {
        difference |= tags[i] ^ first;
        to.k[i] = index(tags[i], to.axis);
    }
    if ((difference & ~varies) != 0) return false;
    const Tag free = index_mask << (to.axis == Axis::row ? 0 : row_shift);
    to.lines[0] = index(first, other(to.axis));
    for (unsigned line = 1; line < lines; ++line) {
        const Tag* own = tags + std::size_t{line} * k;
        const Tag apart = own[0] ^ first;
        if ((apart & ~free) != 0) return false;
        Tag wrong = 0;
        for (unsigned i = 0; i < k; ++i) wrong |= own[i] ^ tags[i] ^ apart;
        if (wrong != 0) return false;
        to.lines[line] = index(own[0], other(to.axis));
    }
    to.matrix = matrix(first);
    to.residual = (first & residual) != 0;
    return true;
}

}  // namespace

struct Provenance::Line {
    enum class State : std::uint8_t { absent, whole, broken } state = State::absent;
    bool axis_known = false, residual = false;
    Axis axis = Axis::column;
    std::uint32_t matrix = 0;
    Tag first = none, odd = none;  // `odd`: the first that does not fit
    unsigned odd_k = 0;
};

void Provenance::use(std::uint32_t product, bool swapped, std::uint32_t row0, std::uint32_t row1, std::uint32_t column0, std::uint32_t column1,
                     std::uint32_t k0, std::uint32_t k1) {
    auto& u = uses_[{where_.pc, product}];
    if (u.count++ == 0) {
        u.a_pc = a_pc_;
        u.b_pc = b_pc_;
        u.swapped = swapped;
    }
    const auto widen = [](std::uint32_t (&range)[2], std::uint32_t low, std::uint32_t high) {
        range[0] = std::min(range[0], low);
        range[1] = std::max(range[1], high);
    };
    widen(u.rows, row0, row1);
    widen(u.columns, column0, column1);
    widen(u.ks, k0, k1);
}

Tag Provenance::accumulate(Tag c, std::uint32_t product, std::uint32_t slice, Tag position, bool correction, unsigned line, unsigned column,
                           bool zero) {
    std::uint32_t sum = product;
    if (c != none && !zero) {
        if (is_bad(c)) return c;
        if (!is_regular(c)) return mixed;
        if (!is_element(c)) return mixed;
        const auto& m = matrices_[matrix(c)];
        if (m.base == product) {
            if (((c ^ position) & position_mask) != 0)
                return bad(record(Kind::accumulator, where_.pc, a_pc_, b_pc_, c, position | Tag{product} << matrix_shift, line, column));
            sum = matrix(c);
        } else if (m.depth != 0) {
            note(EventKind::foreign_sum, where_.pc, product, m.base, 0, c);
            return mixed;  // a sum of two products
        }
    }
    if (correction) matrices_.correct(product);
    else sum = matrices_.extend(sum, slice);
    return full | Tag{sum} << matrix_shift | position;
}

// An accumulator that starts from zero although a sum of the same element was under way here.
void Provenance::restarted(Tag now, bool fresh) {
    auto& last = warp_->last_sum[element(matrices_[matrix(now)].base, row(now), column(now))];
    if (fresh && is_element(last) && !matrices_.includes(matrix(now), matrix(last)))
        note(EventKind::restarted, where_.pc, matrices_[matrix(now)].base, 0, 0, last);
    last = now;
}

bool Provenance::multiply_uniform(const TensorEvent& event, unsigned tile, const Tag* a, const Tag* b, const Tag* c, Tag* d) {
    const auto& rule = event.op->rule;
    Uniform left, right;
    if (!uniform(a, rule.m, rule.k, left) || !uniform(b, rule.n, rule.k, right) || std::memcmp(left.k, right.k, rule.k * sizeof *left.k) != 0)
        return false;
    bool swapped = false;
    const auto product = matrices_.product(left.matrix, left.axis, right.matrix, right.axis, swapped);
    const auto slice = matrices_.slice(left.k, rule.k);
    const bool correction = left.residual || right.residual;
    Tag rows[64], columns[64];
    for (unsigned i = 0; i < rule.m; ++i) rows[i] = Tag{left.lines[i]} << (swapped ? 0 : row_shift);
    for (unsigned j = 0; j < rule.n; ++j) columns[j] = Tag{right.lines[j]} << (swapped ? row_shift : 0);
    // Almost always all sums have come equally far.
    Tag last_c = ~Tag{0}, last_d = none;
    constexpr Tag upper = ~position_mask;
    for (unsigned i = 0; i < rule.m; ++i) {
        for (unsigned j = 0; j < rule.n; ++j) {
            const Tag position = rows[i] | columns[j], before = c[i * rule.n + j];
            if ((before & upper) == last_c && (before == none || (before & position_mask) == position)) {
                d[i * rule.n + j] = last_d | position;
                continue;
            }
            const bool zero = before != none && (!is_element(before) || matrices_[matrix(before)].base != product) &&
                              magnitude(rule.c, event.c, (std::size_t{tile} * rule.m + i) * rule.n + j).zero;
            const Tag now = accumulate(before, product, slice, position, correction, i, j, zero);
            d[i * rule.n + j] = now;
            if (is_element(now) && (before == none || (before & position_mask) == position)) {
                last_c = before & upper;
                last_d = now & upper;
            }
        }
    }
    if (is_element(d[0])) restarted(d[0], c[0] == none);
    const auto range = [](const std::uint32_t* v, unsigned n) { return std::pair(*std::min_element(v, v + n), *std::max_element(v, v + n)); };
    const auto r = range(swapped ? right.lines : left.lines, swapped ? rule.n : rule.m),
               s = range(swapped ? left.lines : right.lines, swapped ? rule.m : rule.n);
    const auto k = range(left.k, rule.k);
    use(product, swapped, r.first, r.second, s.first, s.second, k.first, k.second);
    return true;
}

void Provenance::analyse(const Tag* tags, unsigned lines, unsigned k, std::vector<Line>& to) const {
    to.assign(lines, {});
    for (unsigned line = 0; line < lines; ++line) {
        auto& l = to[line];
        for (unsigned i = 0; i < k; ++i) {
            const Tag t = tags[std::size_t{line} * k + i];
            if (!is_regular(t) || !is_element(t)) continue;
            if (l.state == Line::State::absent) {
                l.state = Line::State::whole;
                l.first = t;
                l.matrix = matrix(t);
                l.residual = (t & residual) != 0;
                continue;
            }
            if (l.state == Line::State::broken) break;
            const bool moves_row = row(t) != row(l.first), moves_column = column(t) != column(l.first);
            bool fits = matrix(t) == l.matrix && !(moves_row && moves_column);
            if (fits && (moves_row || moves_column)) {
                const auto axis = moves_row ? Axis::row : Axis::column;
                fits = !l.axis_known || l.axis == axis;
                l.axis = axis;
                l.axis_known = true;
            }
            if (!fits) {
                l.state = Line::State::broken;
                l.odd = t;
                l.odd_k = i;
            }
        }
    }
    // A line of one element goes along with the others.
    const auto known = std::find_if(to.begin(), to.end(), [](const Line& l) { return l.axis_known; });
    auto axis = known == to.end() ? Axis::column : known->axis;
    bool sure = known != to.end();
    for (const auto& l : to) {
        // Lines of one element each: the index in which they differ is not the contracted one.
        if (sure || l.state != Line::State::whole) continue;
        for (const auto& m : to) {
            if (sure || m.state != Line::State::whole || m.matrix != l.matrix) continue;
            const bool rows = row(l.first) != row(m.first), columns = column(l.first) != column(m.first);
            sure = rows != columns;
            axis = rows ? Axis::column : Axis::row;
        }
    }
    for (auto& l : to) {
        if (l.axis_known) continue;
        l.axis = axis;
        l.axis_known = sure;
    }
}

void Provenance::multiply_general(const TensorEvent& event, unsigned tile, const Tag* a, const Tag* b, const Tag* c, Tag* d) {
    const auto& rule = event.op->rule;
    const unsigned m = rule.m, n = rule.n, depth = rule.k;
    std::vector<Line> left, right;
    analyse(a, m, depth, left);
    analyse(b, n, depth, right);
    std::vector<Magnitude> va(std::size_t{m} * depth), vb(std::size_t{n} * depth);
    for (std::size_t i = 0; i < va.size(); ++i) va[i] = magnitude(rule.a, event.a, std::size_t{tile} * va.size() + i);
    for (std::size_t i = 0; i < vb.size(); ++i) vb[i] = magnitude(rule.b, event.b, std::size_t{tile} * vb.size() + i);
    std::vector<std::uint32_t> ks;
    std::uint64_t unexplained = 0;
    const auto line_record = [&](Kind kind, const Line& line, unsigned number) {
        return bad(record(kind, where_.pc, a_pc_, b_pc_, line.first, line.odd, number, 0, line.odd_k));
    };
    for (unsigned i = 0; i < m; ++i) {
        for (unsigned j = 0; j < n; ++j) {
            const auto& x = left[i];
            const auto& y = right[j];
            auto& result = d[i * n + j];
            const Tag before = c[i * n + j];
            const bool zero = before != none && magnitude(rule.c, event.c, (std::size_t{tile} * m + i) * n + j).zero;
            Tag wrong = none;
            bool unknown = false;
            ks.clear();
            Axis ax = x.axis, ay = y.axis;
            if ((!x.axis_known || !y.axis_known) && x.state == Line::State::whole && y.state == Line::State::whole) {
                bool found = false;
                for (const auto p : {Axis::column, Axis::row}) {
                    for (const auto q : {Axis::row, Axis::column}) {
                        if (found || (x.axis_known && p != x.axis) || (y.axis_known && q != y.axis)) continue;
                        if (index(x.first, p) != index(y.first, q)) continue;
                        found = true;
                        ax = p;
                        ay = q;
                    }
                }
            }
            for (unsigned k = 0; k < depth && wrong == none; ++k) {
                const Tag ta = a[std::size_t{i} * depth + k], tb = b[std::size_t{j} * depth + k];
                const auto &fa = va[std::size_t{i} * depth + k], &fb = vb[std::size_t{j} * depth + k];
                const bool whole_a = is_regular(ta) && is_element(ta), whole_b = is_regular(tb) && is_element(tb);
                const bool vanishes = (fa.zero && fb.finite) || (fb.zero && fa.finite);
                if (vanishes && !(whole_a && whole_b)) continue;
                if (is_bad(ta) || is_bad(tb)) {
                    wrong = is_bad(ta) ? ta : tb;
                } else if (!whole_a || !whole_b) {
                    unknown = true;
                } else if (x.state == Line::State::broken || y.state == Line::State::broken) {
                    if (vanishes) continue;
                    wrong = x.state == Line::State::broken ? line_record(Kind::operand_a, x, i) : line_record(Kind::operand_b, y, j);
                } else if (index(ta, ax) != index(tb, ay)) {
                    if (vanishes) continue;
                    const auto number = record(Kind::contraction, where_.pc, a_pc_, b_pc_, ta, tb, i, j, k);
                    if (records_[number].count == 1) records_[number].lane = static_cast<std::uint32_t>(ax) | static_cast<std::uint32_t>(ay) << 1;
                    wrong = bad(number);
                } else {
                    ks.push_back(index(ta, ax));
                }
            }
            if (wrong != none) {
                result = is_bad(before) && !zero ? before : wrong;
            } else if (unknown) {
                result = is_bad(before) && !zero ? before : mixed;
                ++unexplained;
            } else if (ks.empty()) {
                result = before;
            } else {
                bool swapped = false;
                const auto product = matrices_.product(x.matrix, ax, y.matrix, ay, swapped);
                const auto free_a = index(x.first, other(ax)), free_b = index(y.first, other(ay));
                const Tag position = swapped ? Tag{free_b} << row_shift | free_a : Tag{free_a} << row_shift | free_b;
                result = accumulate(before, product, matrices_.slice(ks.data(), static_cast<unsigned>(ks.size())), position, x.residual || y.residual,
                                    i, j, zero && (!is_element(before) || matrices_[matrix(before)].base != product));
                if (i == 0 && j == 0 && is_element(result)) restarted(result, before == none);
                const auto r = swapped ? free_b : free_a, s = swapped ? free_a : free_b;
                const auto [low, high] = std::minmax_element(ks.begin(), ks.end());
                use(product, swapped, r, r, s, s, *low, *high);
            }
        }
    }
    if (unexplained != 0) unexplained_[where_.pc] += unexplained;
}

void Provenance::tensor(const TensorEvent& event) {
    where_ = event.where;
    if (block_index_ != where_.block) {
        block_ = blocks_.at(where_.block).get();
        block_index_ = where_.block;
    }
    warp_ = &block_->warps[where_.warp];
    const auto& gathers = *plans_[where_.pc].gather;
    bool any = false;
    for (unsigned x = 0; x < 3; ++x)
        for (const auto slot : gathers[x].slots) any |= read(slot) != nullptr;
    const auto& out = gathers[3];
    const unsigned d_bytes = shared_.program->source().maps[event.op->d_map].register_bytes;
    if (!any) {
        for (const auto slot : out.slots) clear(slot, d_bytes, all_lanes);
        return;
    }
    const auto writer = [&](const Gather& g) {
        for (const auto slot : g.slots)
            if ((slot & constant_bit) == 0 && read(slot) != nullptr) return warp_->writer[slot / 64];
        return no_pc;
    };
    a_pc_ = writer(gathers[0]);
    b_pc_ = writer(gathers[1]);
    if (multiply_ramps(event)) return;
    const std::uint32_t maps[] = {event.op->a_map, event.op->b_map, event.op->c_map};
    bool followed = out.granules != 0;
    for (unsigned x = 0; x < 3; ++x) {
        const auto& g = gathers[x];
        const unsigned bytes = shared_.program->source().maps[maps[x]].register_bytes;
        for (const auto slot : g.slots) materialise(slot, bytes);
        followed &= g.granules != 0;
        auto& dense = dense_[x];
        dense.resize(std::size_t{g.lines} * g.width);
        if (g.granules == 0) continue;
        const auto* tags = warp_->tags.data();
        const auto* granule = g.granule.data();
        if (!g.runs.empty()) {
            for (const auto& run : g.runs) {
                for (unsigned i = 0; i < run.count; ++i) dense[run.to + i] = tags[run.from + std::size_t{i} * run.step];
            }
            continue;
        }
        for (std::size_t p = 0; p < dense.size(); ++p) dense[p] = granule[p] == no_granule ? none : tags[granule[p]];
    }
    auto& d = dense_[3];
    d.resize(std::size_t{out.lines} * out.width);
    const auto& rule = event.op->rule;
    if (!followed) {
        std::fill(d.begin(), d.end(), mixed);
        unexplained_[where_.pc] += d.size();
    } else {
        for (unsigned t = 0; t < event.op->tiles; ++t) {
            const auto* a = dense_[0].data() + std::size_t{t} * rule.m * rule.k;
            const auto* b = dense_[1].data() + std::size_t{t} * rule.n * rule.k;
            const auto* c = dense_[2].data() + std::size_t{t} * rule.m * rule.n;
            auto* to = d.data() + std::size_t{t} * rule.m * rule.n;
            if (!multiply_uniform(event, t, a, b, c, to)) multiply_general(event, t, a, b, c, to);
            sample_multiplication(event, t, a, b, c, to);
        }
    }
    for (const auto slot : out.slots) write(slot, d_bytes, all_lanes);
    if (out.granules == 0) {
        for (const auto slot : out.slots) std::fill_n(registers(slot), std::size_t{d_bytes} * lanes >> shift_, mixed);
        return;
    }
    auto* tags = warp_->tags.data();
    if (out.granules == 2) {
        for (const auto& [granule, position] : out.scatter) tags[granule] = tags[granule + 1] = d[position];
        return;
    }
    for (const auto& [granule, position] : out.scatter)
        for (unsigned g = 0; g < out.granules; ++g) tags[granule + g] = d[position];
}

}  // namespace wmmadiag::provenance

namespace wmmadiag {

std::unique_ptr<Check> make_provenance(const Shared& shared) { return std::make_unique<provenance::Provenance>(shared); }

}  // namespace wmmadiag
