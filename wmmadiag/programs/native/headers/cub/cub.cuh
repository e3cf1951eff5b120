// CUB in kernels: their bodies are the device's, as are those of functions for the device. What else names its types can do so;
// their sizes are the device's, too.
#pragma once
#include "wmmadiag_device.h"
#include "wmmadiag_utilities.h"

namespace cub {

#define WMMADIAG_COLLECTIVE(name) \
  template <typename, auto...>    \
  struct name {                   \
    struct TempStorage;           \
  };
WMMADIAG_COLLECTIVE(BlockAdjacentDifference)
WMMADIAG_COLLECTIVE(BlockDiscontinuity)
WMMADIAG_COLLECTIVE(BlockExchange)
WMMADIAG_COLLECTIVE(BlockHistogram)
WMMADIAG_COLLECTIVE(BlockLoad)
WMMADIAG_COLLECTIVE(BlockReduce)
WMMADIAG_COLLECTIVE(BlockScan)
WMMADIAG_COLLECTIVE(BlockShuffle)
WMMADIAG_COLLECTIVE(BlockStore)
WMMADIAG_COLLECTIVE(WarpExchange)
WMMADIAG_COLLECTIVE(WarpLoad)
WMMADIAG_COLLECTIVE(WarpReduce)
WMMADIAG_COLLECTIVE(WarpScan)
WMMADIAG_COLLECTIVE(WarpStore)
WMMADIAG_COLLECTIVE(BlockMergeSort)
WMMADIAG_COLLECTIVE(WarpMergeSort)
#undef WMMADIAG_COLLECTIVE
template <typename, int, int, typename = void, auto...>
struct BlockRadixSort {
  struct TempStorage;
};

enum BlockReduceAlgorithm { BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY, BLOCK_REDUCE_RAKING, BLOCK_REDUCE_WARP_REDUCTIONS };
enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };
enum BlockLoadAlgorithm {
  BLOCK_LOAD_DIRECT, BLOCK_LOAD_STRIPED, BLOCK_LOAD_VECTORIZE, BLOCK_LOAD_TRANSPOSE, BLOCK_LOAD_WARP_TRANSPOSE
};
enum BlockStoreAlgorithm {
  BLOCK_STORE_DIRECT, BLOCK_STORE_STRIPED, BLOCK_STORE_VECTORIZE, BLOCK_STORE_TRANSPOSE, BLOCK_STORE_WARP_TRANSPOSE
};

}  // namespace cub
