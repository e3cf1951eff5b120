#pragma once
namespace gemm {
struct TileConfig {
  static constexpr int kBM = 64;
  static constexpr int kBN = 64;
  static constexpr int kBK = 32;
  static constexpr int kWarpsM = kBM / 32;
  static constexpr int kWarpsN = kBN / 32;
  static constexpr int kThreads = kWarpsM * kWarpsN * 32;
  static constexpr int kLd = kBK + 8;
};
}  // namespace gemm
