//===- Tile.h - Wrappers of AMX tile instructions ---------------*- C++ -*-===//
//
// The compiler's intrinsics are not used: those of GCC 12 do not tell it that a
// load reads memory, so that stores to the tile's memory may move behind the
// load.
//
// A gemm loads its tile configuration when it begins and releases it when it
// ends (TileScope). So nothing else needs to know that it used tiles, gemms of
// different shapes may follow each other on any thread, and between gemms the
// tile registers are in their initial state, which costs nothing when threads
// switch. Both instructions take tens of cycles, a call of a gemm thousands.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_KERNELS_CPU_AMX_TILE_H
#define MOE_KERNELS_CPU_AMX_TILE_H

#include "kernels/cpu/GemmTiling.h"

namespace moek::amx {
namespace {

constexpr int kTileRows = 16;
constexpr int kTileRowBytes = 64;
constexpr int kTileBytes = kTileRows * kTileRowBytes;

// The tile registers of a product of 2 x 2 tiles: token tiles times weight
// tiles.
/// Tile registers 0 .. 3: sum 2 a + b of tokens a and weights b.
constexpr int kSums = 0;
constexpr int kTokens = 4;  ///< Tile registers 4 and 5.
constexpr int kWeights = 6; ///< Tile registers 6 and 7.

/// The operand of LDTILECFG.
struct alignas(64) TileConfig {
  uint8_t palette, startRow, reserved[14];
  uint16_t rowBytes[16];
  uint8_t rows[16];
};
static_assert(sizeof(TileConfig) == 64);

/// Configures tiles for `tokenRows` (1 to 16) tokens at a time during its
/// lifetime.
class TileScope {
public:
  explicit MOE_INLINE TileScope(int tokenRows) {
    TileConfig config = {};
    config.palette = 1;
    for (int i = 0; i < 8; ++i) {
      config.rowBytes[i] = kTileRowBytes;
      config.rows[i] = uint8_t(i < kWeights ? tokenRows : kTileRows);
    }
    __asm__ volatile("ldtilecfg %0" : : "m"(config));
  }
  MOE_INLINE ~TileScope() { __asm__ volatile("tilerelease"); }
  TileScope(const TileScope &) = delete;
  TileScope &operator=(const TileScope &) = delete;
};

/// Loads rows that are `stride` bytes apart.
template <int Tile> MOE_INLINE void tileLoad(const void *from, int64_t stride) {
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2"
                   :
                   : "r"(from), "r"(stride), "i"(Tile)
                   : "memory");
}

template <int Tile> MOE_INLINE void tileStore(void *to, int64_t stride) {
  __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)"
                   :
                   : "r"(to), "r"(stride), "i"(Tile)
                   : "memory");
}

template <int Tile> MOE_INLINE void tileZero() {
  __asm__ volatile("tilezero %%tmm%c0" : : "i"(Tile));
}

/// int8 tokens times int8 weights, added to int32.
struct Int8Product {
  template <int To, int Left, int Right> MOE_INLINE static void add() {
    __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0"
                     :
                     : "i"(To), "i"(Left), "i"(Right));
  }
};

/// Products of pairs of BF16, added to float.
struct Bf16Product {
  template <int To, int Left, int Right> MOE_INLINE static void add() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0"
                     :
                     : "i"(To), "i"(Left), "i"(Right));
  }
};

/// One operand of a tile product: the rows of a first tile; the next tile along
/// the columns is `step` bytes after it.
struct TileRows {
  const uint8_t *from;
  int64_t stride, step;
};

/// Loads and multiplies A x B tiles of sums over `steps` tiles along the
/// columns. With four sums, each is used by every fourth product: at 16 cycles
/// per product that hides the latency of 52. With A = B = 2 a step loads as
/// many tiles as it multiplies (4 for 4), three for two where one of them is 1.
template <class Product, int A, int B>
MOE_INLINE void multiplyTiles(const TileRows *tokens, const TileRows *weights,
                              int64_t steps) {
  for (int64_t k = 0; k < steps; ++k) {
    auto load = [&]<int Tile>(std::integral_constant<int, Tile>,
                              const TileRows &rows) {
      tileLoad<Tile>(rows.from + k * rows.step, rows.stride);
    };
    load(SizeConstant<kTokens>(), tokens[0]);
    load(SizeConstant<kWeights>(), weights[0]);
    Product::template add<kSums, kTokens, kWeights>();
    if constexpr (B == 2) {
      load(SizeConstant<kWeights + 1>(), weights[1]);
      Product::template add<kSums + 1, kTokens, kWeights + 1>();
    }
    if constexpr (A == 2) {
      load(SizeConstant<kTokens + 1>(), tokens[1]);
      Product::template add<kSums + 2, kTokens + 1, kWeights>();
      if constexpr (B == 2)
        Product::template add<kSums + 3, kTokens + 1, kWeights + 1>();
    }
  }
}

template <int A, int B> MOE_INLINE void zeroSums() {
  tileZero<kSums>();
  if constexpr (B == 2)
    tileZero<kSums + 1>();
  if constexpr (A == 2) {
    tileZero<kSums + 2>();
    if constexpr (B == 2)
      tileZero<kSums + 3>();
  }
}

/// Stores the sums as [4][16][16] elements of four bytes, those of token tile a
/// and weight tile b at 2 a + b.
template <int A, int B> MOE_INLINE void storeSums(void *to) {
  auto *bytes = static_cast<uint8_t *>(to);
  tileStore<kSums>(bytes, kTileRowBytes);
  if constexpr (B == 2)
    tileStore<kSums + 1>(bytes + kTileBytes, kTileRowBytes);
  if constexpr (A == 2) {
    tileStore<kSums + 2>(bytes + 2 * kTileBytes, kTileRowBytes);
    if constexpr (B == 2)
      tileStore<kSums + 3>(bytes + 3 * kTileBytes, kTileRowBytes);
  }
}

} // namespace
} // namespace moek::amx

#endif // MOE_KERNELS_CPU_AMX_TILE_H
