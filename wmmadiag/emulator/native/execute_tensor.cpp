// wmma.mma, mma, ldmatrix, stmatrix, movmatrix: between lanes' registers, shared memory and matrices.
#include <array>

#include "access.hpp"
#include "fragment_access.hpp"
#include "fragment_moves.hpp"

namespace wmmadiag {

namespace {

// A product with all matrices as they lie in the registers.
void multiply_squares(const Warp& warp, const TensorOp& op) {
    const std::byte *a[squares_limit], *b[squares_limit], *c[squares_limit];
    std::byte* d[squares_limit];
    auto* registers = warp.at<std::byte>(0);
    const auto find = [&](const TensorOp::Places& places, auto& to) {
        // All of them, the zeros behind the last too: a loop of known length costs less than to look where it ends.
        if (op.in_registers) [[likely]]
            for (std::size_t i = 0; i < squares_limit; ++i) to[i] = registers + places[i];
        else
            for (std::size_t i = 0; i < squares_limit; ++i) to[i] = warp.at<std::byte>(places[i]);
    };
    find(op.a_places, a), find(op.b_places, b), find(op.c_places, c), find(op.d_places, d);
    op.squares(op.rule, a, b, op.b_lines, c, d);
}

void multiply_dense(const Warp& warp, const TensorOp& op, const Dense& a, const Dense& b, const Dense& c, Dense& d) {
    const auto size = [&](std::uint32_t map) {
        const auto& m = fragment_map(warp, map);
        return std::size_t{m.lines} * m.width * m.element_bits / 8 / op.tiles;
    };
    for (unsigned t = 0; t < op.tiles; ++t)
        op.function(op.rule, a.bytes + t * size(op.a_map), b.bytes + t * size(op.b_map), c.bytes + t * size(op.c_map), d.bytes + t * size(op.d_map));
    to_lanes(warp, fragment_map(warp, op.d_map), op.d, d);
}

Flow multiply_unwatched(Warp& warp, const Inst& inst, Mask active) {
    if (const auto flow = warp.converge_whole(active); flow != Flow::next) return flow;
    multiply_squares(warp, *inst.tensor);
    return Flow::next;
}

Flow multiply(Warp& warp, const Inst& inst, Mask active) {
    if (const auto flow = warp.converge_whole(active); flow != Flow::next) return flow;
    const auto& op = tensor_op(warp, inst);
    auto* observer = warp.block().observer();
    Dense a, b, c, d;
    to_dense(warp, fragment_map(warp, op.a_map), op.a, a);
    to_dense(warp, fragment_map(warp, op.b_map), op.b, b);
    to_dense(warp, fragment_map(warp, op.c_map), op.c, c);
    if (op.squares != nullptr) {
        multiply_squares(warp, op);
        to_dense(warp, fragment_map(warp, op.d_map), op.d, d);
    } else {
        multiply_dense(warp, op, a, b, c, d);
    }
    if (observer != nullptr) observer->tensor({warp.where(), &op, a.bytes, b.bytes, c.bytes, d.bytes});
    return Flow::next;
}

// m8n8.b16: lane l holds elements 2(l mod 4), +1 of row l / 4 of each matrix, so that a register is the matrix, row after row; .trans: of
// column l / 4. (PTX ISA, ldmatrix)
Mask rows_of(unsigned matrices) { return matrices == 4 ? all_lanes : (Mask{1} << (lines_in_square * matrices)) - 1; }

Square turned_if(bool transposed, const Square& square) { return transposed ? turned(square) : square; }

// count: matrices; lane 8 i + r gives the address of row r of matrix i. extra: one register per matrix.
Flow load_matrices(Warp& warp, const Inst& inst, Mask active) {
    if (const auto flow = warp.converge_whole(active); flow != Flow::next) return flow;
    Addresses addresses;
    compute_addresses(warp, inst, addresses);
    const std::byte* row[lanes];
    const auto flow = access(warp, inst.space, rows_of(inst.count), addresses, bytes_in_line, bytes_in_line, AccessKind::load,
                             [&](unsigned lane, const std::byte* p) { row[lane] = p; });
    if (flow != Flow::next) return flow;
    for (unsigned m = 0; m < inst.count; ++m) {
        const auto square = gather_square([&](unsigned i) { return row[m * lines_in_square + i]; });
        store_square(warp.at<std::byte>(inst.extra[m]), turned_if((inst.flags & flag::transposed) != 0, square));
    }
    return Flow::next;
}

Flow store_matrices(Warp& warp, const Inst& inst, Mask active) {
    if (const auto flow = warp.converge_whole(active); flow != Flow::next) return flow;
    Addresses addresses;
    compute_addresses(warp, inst, addresses);
    alignas(64) std::byte lines[lanes][bytes_in_line];
    for (unsigned m = 0; m < inst.count; ++m) {
        const auto square = load_square(warp.at<const std::byte>(inst.extra[m]));
        store_square(lines[m * lines_in_square], turned_if((inst.flags & flag::transposed) != 0, square));
    }
    return access(warp, inst.space, rows_of(inst.count), addresses, bytes_in_line, bytes_in_line, AccessKind::store,
                  [&](unsigned lane, std::byte* p) { std::memcpy(p, lines[lane], bytes_in_line); });
}

Flow transpose_matrix(Warp& warp, const Inst& inst, Mask active) {
    if (const auto flow = warp.converge_whole(active); flow != Flow::next) return flow;
    store_square(warp.at<std::byte>(inst.d), turned(load_square(warp.at<std::byte>(inst.s[0]))));
    return Flow::next;
}

constexpr std::array table{
    Operation{"mma", multiply, false,
              [](const Inst& inst, const ProgramSource&) { return inst.tensor->squares != nullptr ? multiply_unwatched : multiply; }},
    Operation{"wmma.load", load_fragment, false, load_fragment_unwatched},
    Operation{"wmma.store", store_fragment, false, store_fragment_unwatched},
    Operation{"ldmatrix", load_matrices},
    Operation{"stmatrix", store_matrices},
    Operation{"movmatrix", transpose_matrix},
};

}  // namespace

std::span<const Operation> tensor_operations() { return table; }

}  // namespace wmmadiag
