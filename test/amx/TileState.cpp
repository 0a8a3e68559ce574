#include "test/amx/TileState.h"

#include "test/amx/Bf16Sum.h"

#include <cstring>

namespace moek::test {

namespace {
constexpr char kNotConfigured[] = "#UD: no tile configuration is loaded";

bool anySet(const void *bytes, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (static_cast<const uint8_t *>(bytes)[i])
      return true;
  return false;
}

/// Returns why LDTILECFG refuses `config`, or null.
const char *configFault(const TileConfig &config) {
  if (config.palette > 1)
    return "#GP: the palette is neither 0 nor 1";
  if (config.palette == 0)
    return nullptr;
  if (anySet(config.reserved, sizeof(config.reserved)))
    return "#GP: reserved bytes 2 to 15 are not zero";
  if (anySet(config.rowBytes + kTiles, sizeof(config.rowBytes) / 2) ||
      anySet(config.rows + kTiles, sizeof(config.rows) / 2))
    return "#GP: a tile after the eighth is configured";
  for (int i = 0; i < kTiles; ++i) {
    if (config.rowBytes[i] > kTileRowBytes)
      return "#GP: a tile has rows of more than 64 bytes";
    if (config.rows[i] > kTileRows)
      return "#GP: a tile has more than 16 rows";
    if ((config.rows[i] == 0) != (config.rowBytes[i] == 0))
      return "#GP: a tile has rows without bytes, or bytes without rows";
  }
  return nullptr;
}
} // namespace

const char *TileState::loadConfig(const void *from) {
  TileConfig config;
  std::memcpy(&config, from, sizeof(config));
  if (const char *fault = configFault(config))
    return fault;
  release();
  if (config.palette != 0)
    config_ = config;
  return nullptr;
}

void TileState::storeConfig(void *to) const {
  std::memcpy(to, &config_, sizeof(config_));
}

void TileState::release() {
  config_ = {};
  std::memset(tiles_, 0, sizeof(tiles_));
}

void TileState::zeroRowsFrom(int tile, int first) {
  for (int row = first; row < kTileRows; ++row)
    std::memset(tiles_[tile][row], 0, kTileRowBytes);
}

const char *TileState::checkTile(int tile) const {
  if (config_.palette == 0)
    return kNotConfigured;
  if (config_.rows[tile] == 0)
    return "#UD: a tile is not configured";
  return nullptr;
}

const char *TileState::checkRows(int tile) const {
  if (const char *fault = checkTile(tile))
    return fault;
  if (config_.rowBytes[tile] % 4 != 0)
    return "#UD: a tile's row is not a whole number of 4-byte elements";
  if (config_.startRow >= config_.rows[tile])
    return "#UD: start_row is past the tile's rows";
  return nullptr;
}

const char *TileState::load(int tile, const std::byte *from, int64_t stride) {
  if (const char *fault = checkRows(tile))
    return fault;
  size_t bytes = config_.rowBytes[tile];
  int first = config_.startRow;
  // Rows before start_row were loaded before the interruption.
  zeroRowsFrom(tile, first);
  for (int row = first; row < config_.rows[tile]; ++row) {
    std::memcpy(tiles_[tile][row], from + row * stride, bytes);
  }
  config_.startRow = 0;
  return nullptr;
}

const char *TileState::store(int tile, std::byte *to, int64_t stride) {
  if (const char *fault = checkRows(tile))
    return fault;
  for (int row = config_.startRow; row < config_.rows[tile]; ++row)
    std::memcpy(to + row * stride, tiles_[tile][row], config_.rowBytes[tile]);
  config_.startRow = 0;
  return nullptr;
}

const char *TileState::zero(int tile) {
  if (const char *fault = checkTile(tile))
    return fault;
  std::memset(tiles_[tile], 0, sizeof(tiles_[tile]));
  config_.startRow = 0;
  return nullptr;
}

const char *TileState::checkProduct(int to, int left, int right) const {
  if (to == left || to == right || left == right)
    return "#UD: a product names a tile twice";
  for (int tile : {to, left, right}) {
    if (const char *fault = checkTile(tile))
      return fault;
    if (config_.rowBytes[tile] % 4 != 0)
      return "#UD: a tile's row is not a whole number of 4-byte elements";
  }
  if (config_.rows[to] != config_.rows[left])
    return "#UD: the sum and the left factor have different row counts";
  if (config_.rowBytes[to] != config_.rowBytes[right])
    return "#UD: the sum and the right factor have rows of different lengths";
  if (config_.rowBytes[left] / 4 != config_.rows[right])
    return "#UD: the left factor's columns are not the right factor's rows";
  return nullptr;
}

int64_t TileState::productSize(TileOp op, int left, int right) const {
  int64_t groups = config_.rows[left] * (config_.rowBytes[right] / 4) *
                   (config_.rowBytes[left] / 4);
  return groups * (op == TileOp::TdpBf16ps ? 2 : 4);
}

const char *TileState::multiply(TileOp op, int to, int left, int right) {
  if (const char *fault = checkProduct(to, left, right))
    return fault;
  if (op == TileOp::TdpBf16ps)
    multiplyBf16(to, left, right);
  else if (op == TileOp::TdpBssd)
    multiplyBytes<int8_t, int8_t>(to, left, right);
  else if (op == TileOp::TdpBsud)
    multiplyBytes<int8_t, uint8_t>(to, left, right);
  else if (op == TileOp::TdpBusd)
    multiplyBytes<uint8_t, int8_t>(to, left, right);
  else
    multiplyBytes<uint8_t, uint8_t>(to, left, right);
  config_.startRow = 0;
  return nullptr;
}

template <class Left, class Right>
void TileState::multiplyBytes(int to, int left, int right) {
  // The four products of each sum are added separately, so that the compiler
  // vectorises; integer addition wraps around, so that the order does not
  // matter.
  int16_t factors[kTileRows][kTileRowBytes];
  for (int k = 0; k < kTileRows; ++k)
    for (int i = 0; i < kTileRowBytes; ++i)
      factors[k][i] = int16_t(Right(tiles_[right][k][i]));
  int groups = config_.rowBytes[left] / 4, sums = config_.rowBytes[to] / 4;
  for (int m = 0; m < config_.rows[to]; ++m) {
    uint32_t products[kTileRowBytes] = {};
    for (int k = 0; k < groups; ++k) {
      int16_t x[kTileRowBytes];
      for (int i = 0; i < kTileRowBytes; ++i)
        x[i] = int16_t(Left(tiles_[left][m][4 * k + i % 4]));
      for (int i = 0; i < kTileRowBytes; ++i)
        products[i] += uint32_t(int32_t(x[i]) * int32_t(factors[k][i]));
    }
    uint32_t row[kTileRowBytes / 4] = {};
    std::memcpy(row, tiles_[to][m], size_t(4 * sums));
    for (int n = 0; n < sums; ++n)
      for (int i = 4 * n; i < 4 * n + 4; ++i)
        row[n] += products[i];
    std::memcpy(tiles_[to][m], row, kTileRowBytes);
  }
  zeroRowsFrom(to, config_.rows[to]);
}

void TileState::multiplyBf16(int to, int left, int right) {
  float factors[kTileRows][kTileRowBytes / 2];
  for (int k = 0; k < kTileRows; ++k)
    for (int i = 0; i < kTileRowBytes / 2; ++i) {
      uint16_t bits;
      std::memcpy(&bits, tiles_[right][k] + 2 * i, 2);
      factors[k][i] = widenBf16(bits);
    }
  int pairs = config_.rowBytes[left] / 4, sums = config_.rowBytes[to] / 4;
  for (int m = 0; m < config_.rows[to]; ++m) {
    // Even and odd products of a sum are accumulated separately from zero, then
    // added to each other, then to the sum.
    float products[kTileRowBytes / 2] = {};
    for (int k = 0; k < pairs; ++k) {
      uint16_t bits[2];
      std::memcpy(bits, tiles_[left][m] + 4 * k, 4);
      double x[2] = {double(widenBf16(bits[0])), double(widenBf16(bits[1]))};
      for (int i = 0; i < 2 * sums; ++i)
        products[i] =
            addRounded(double(products[i]), x[i % 2] * double(factors[k][i]));
    }
    float row[kTileRowBytes / 4] = {};
    std::memcpy(row, tiles_[to][m], size_t(4 * sums));
    for (int n = 0; n < sums; ++n) {
      float pair =
          addRounded(double(products[2 * n]), double(products[2 * n + 1]));
      row[n] = addRounded(double(flushed(row[n])), double(pair));
    }
    std::memcpy(tiles_[to][m], row, kTileRowBytes);
  }
  zeroRowsFrom(to, config_.rows[to]);
}

} // namespace moek::test
