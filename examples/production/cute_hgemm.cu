// The half GEMM of CuTe's tutorial, examples/cute/tutorial/sgemm_sm80.cu of CUTLASS, as it is.
//
// Its host code instantiates the kernel with the types of local variables, which have no name that the compiler could
// be asked for. Here they get names: those of the layouts and copies that the tutorial's gemm_tn makes.
#include "sgemm_sm80.cu"

namespace hgemm {

using namespace cute;

using Problem = Shape<int, int, int>;
using Tiler = Shape<_128, _128, _64>;
using RowMajor = Stride<int, _1>;
using ColumnMajor = Stride<_1, int>;
using Atom = decltype(composition(Swizzle<3, 3, 3>{}, Layout<Shape<_8, Shape<_8, _8>>, Stride<_8, Stride<_1, _64>>>{}));
using Stages = decltype(tile_to_shape(Atom{}, Shape<_128, _64, _3>{}));
using TileC = decltype(make_layout(Shape<_128, _128>{}));
using Copy = decltype(make_tiled_copy(Copy_Atom<SM80_CP_ASYNC_CACHEALWAYS<uint128_t>, half_t>{},
                                      Layout<Shape<_16, _8>, Stride<_8, _1>>{}, Layout<Shape<_1, _8>>{}));
using FromShared = Copy_Atom<SM75_U32x4_LDSM_N, half_t>;
using Mma = decltype(make_tiled_mma(SM80_16x8x16_F16F16F16F16_TN{}, Layout<Shape<_2, _2>>{}, Tile<_32, _32, _16>{}));

}  // namespace hgemm
