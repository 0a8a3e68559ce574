//===- TileState.h - State and effects of AMX instructions ------*- C++ -*-===//
//
// The tile registers and configuration of one thread, and the instructions as
// the Software Developer's Manual specifies them for palette 1. Nothing here
// allocates or locks: it runs in a signal handler.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_AMX_TILESTATE_H
#define MOE_TEST_AMX_TILESTATE_H

#include "test/amx/TileInstruction.h"

#include <cstddef>
#include <cstdint>

namespace moek::test {

inline constexpr int kTiles = 8;
inline constexpr int kTileRows = 16;
inline constexpr int kTileRowBytes = 64;

/// The operand of LDTILECFG and STTILECFG.
struct TileConfig {
  uint8_t palette;
  uint8_t startRow;
  uint8_t reserved[14];
  uint16_t rowBytes[16]; ///< The field that Intel's manual calls "colsb".
  uint8_t rows[16];
};
static_assert(sizeof(TileConfig) == 64);

class TileState {
public:
  /// Each returns null, or the fault that a CPU would raise and its reason. A
  /// fault changes nothing.
  const char *loadConfig(const void *from);
  const char *load(int tile, const std::byte *from, int64_t stride);
  const char *store(int tile, std::byte *to, int64_t stride);
  const char *zero(int tile);
  /// TDPBF16PS or one of TDPBSSD, TDPBSUD, TDPBUSD, TDPBUUD.
  const char *multiply(TileOp op, int to, int left, int right);
  void storeConfig(void *to) const;
  void release();

  /// Multiply-accumulates of a product with the tiles as configured.
  int64_t productSize(TileOp op, int left, int right) const;

  const TileConfig &config() const { return config_; }
  /// [kTileRows][kTileRowBytes]
  const uint8_t *data(int tile) const { return tiles_[tile][0]; }

private:
  const char *checkTile(int tile) const;
  const char *checkRows(int tile) const;
  const char *checkProduct(int to, int left, int right) const;
  void zeroRowsFrom(int tile, int first);
  template <class Left, class Right>
  void multiplyBytes(int to, int left, int right);
  void multiplyBf16(int to, int left, int right);

  TileConfig config_ = {};
  alignas(64) uint8_t tiles_[kTiles][kTileRows][kTileRowBytes] = {};
};

} // namespace moek::test

#endif // MOE_TEST_AMX_TILESTATE_H
