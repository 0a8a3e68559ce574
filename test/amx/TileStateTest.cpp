//===- TileStateTest.cpp - Compares tile instructions with plain loops ----===//

#include "test/amx/TileState.h"

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <random>

using namespace moek::test;

namespace {
TileConfig configOf(int rows, int rowBytes) {
  TileConfig config = {};
  config.palette = 1;
  for (int i = 0; i < kTiles; ++i) {
    config.rows[i] = uint8_t(rows);
    config.rowBytes[i] = uint16_t(rowBytes);
  }
  return config;
}

void setTile(TileConfig &config, int tile, int rows, int rowBytes) {
  config.rows[tile] = uint8_t(rows);
  config.rowBytes[tile] = uint16_t(rowBytes);
}

class TileStateTest : public testing::Test {
protected:
  void configure(const TileConfig &config) {
    ASSERT_EQ(state->loadConfig(&config), nullptr);
  }
  void fill(int tile, std::mt19937 &random) {
    for (uint8_t &byte : bytes[tile])
      byte = uint8_t(random());
    load(tile);
  }
  void load(int tile) {
    ASSERT_EQ(state->load(tile, reinterpret_cast<std::byte *>(bytes[tile]),
                          kTileRowBytes),
              nullptr);
  }
  template <class T> T element(int tile, int row, int column) const {
    T value;
    std::memcpy(&value,
                state->data(tile) + row * kTileRowBytes +
                    column * int(sizeof(T)),
                sizeof(T));
    return value;
  }
  /// Expects zeros outside of the configured part.
  void expectPaddingZero(int tile) {
    for (int r = 0; r < kTileRows; ++r)
      for (int i = 0; i < kTileRowBytes; ++i)
        if (r >= state->config().rows[tile] ||
            i >= state->config().rowBytes[tile]) {
          ASSERT_EQ(state->data(tile)[r * kTileRowBytes + i], 0)
              << "tile " << tile << ", row " << r << ", byte " << i;
        }
  }

  std::unique_ptr<TileState> state = std::make_unique<TileState>();
  uint8_t bytes[kTiles][kTileRows * kTileRowBytes];
};

template <class Left, class Right>
void checkProduct(TileState &state, TileOp op, int m, int k, int n,
                  std::mt19937 &random, bool extremes) {
  TileConfig config = {};
  config.palette = 1;
  setTile(config, 2, m, 4 * n);
  setTile(config, 5, m, 4 * k);
  setTile(config, 7, k, 4 * n);
  ASSERT_EQ(state.loadConfig(&config), nullptr);
  uint8_t memory[3][kTileRows * kTileRowBytes];
  int tiles[3] = {2, 5, 7};
  for (int i = 0; i < 3; ++i) {
    for (uint8_t &byte : memory[i])
      byte = extremes ? uint8_t(random() % 2 ? 0x80 : 0xff) : uint8_t(random());
    ASSERT_EQ(state.load(tiles[i], reinterpret_cast<std::byte *>(memory[i]),
                         kTileRowBytes),
              nullptr);
  }
  ASSERT_EQ(state.multiply(op, 2, 5, 7), nullptr);
  for (int r = 0; r < kTileRows; ++r)
    for (int c = 0; c < kTileRowBytes / 4; ++c) {
      uint32_t want = 0, got;
      std::memcpy(&got, state.data(2) + r * kTileRowBytes + 4 * c, 4);
      if (r < m && c < n) {
        std::memcpy(&want, memory[0] + r * kTileRowBytes + 4 * c, 4);
        for (int i = 0; i < 4 * k; ++i)
          want += uint32_t(
              int64_t(Left(memory[1][r * kTileRowBytes + i])) *
              int64_t(Right(memory[2][i / 4 * kTileRowBytes + 4 * c + i % 4])));
      }
      ASSERT_EQ(got, want) << "row " << r << ", column " << c << " of " << m
                           << " x " << k << " x " << n;
    }
}

TEST_F(TileStateTest, ByteProductsOfEverySignAndManyShapes) {
  std::mt19937 random(1);
  for (int i = 0; i < 60; ++i) {
    int m = 1 + int(random() % 16), k = 1 + int(random() % 16),
        n = 1 + int(random() % 16);
    bool extremes = i % 4 == 3;
    if (i == 0)
      m = k = n = 16;
    checkProduct<int8_t, int8_t>(*state, TileOp::TdpBssd, m, k, n, random,
                                 extremes);
    checkProduct<int8_t, uint8_t>(*state, TileOp::TdpBsud, m, k, n, random,
                                  extremes);
    checkProduct<uint8_t, int8_t>(*state, TileOp::TdpBusd, m, k, n, random,
                                  extremes);
    checkProduct<uint8_t, uint8_t>(*state, TileOp::TdpBuud, m, k, n, random,
                                   extremes);
  }
}

/// FP32 with denormals as zero, as in AMX.
float flush(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
}
float fromBf16(uint16_t bits) {
  return flush(std::bit_cast<float>(uint32_t(bits) << 16));
}

TEST_F(TileStateTest, Bf16PairsAccumulateInTheDocumentedOrder) {
  std::mt19937 random(2);
  for (int i = 0; i < 40; ++i) {
    int m = 1 + int(random() % 16), k = 1 + int(random() % 16),
        n = 1 + int(random() % 16);
    TileConfig config = {};
    config.palette = 1;
    setTile(config, 0, m, 4 * n);
    setTile(config, 1, m, 4 * k);
    setTile(config, 6, k, 4 * n);
    configure(config);
    uint16_t left[kTileRows][32], right[kTileRows][32];
    float sums[kTileRows][16];
    // Exponents are around 1, and in some rounds so small that products and
    // sums are denormal.
    int exponent = i % 3 == 2 ? 60 : 120;
    for (int r = 0; r < kTileRows; ++r)
      for (int c = 0; c < 32; ++c) {
        left[r][c] = uint16_t((random() & 0x807f) |
                              (uint32_t(exponent) + random() % 8) << 7);
        right[r][c] = uint16_t((random() & 0x807f) |
                               (uint32_t(exponent) + random() % 8) << 7);
        sums[r][c / 2] = std::bit_cast<float>(
            uint32_t((random() & 0x807fffff) |
                     (i % 3 == 2 ? random() % 2 : 120 + random() % 8) << 23));
      }
    ASSERT_EQ(state->load(0, reinterpret_cast<std::byte *>(sums), 64), nullptr);
    ASSERT_EQ(state->load(1, reinterpret_cast<std::byte *>(left), 64), nullptr);
    ASSERT_EQ(state->load(6, reinterpret_cast<std::byte *>(right), 64),
              nullptr);
    ASSERT_EQ(state->multiply(TileOp::TdpBf16ps, 0, 1, 6), nullptr);
    for (int r = 0; r < m; ++r)
      for (int c = 0; c < n; ++c) {
        float even = 0, odd = 0;
        for (int p = 0; p < k; ++p) {
          even = flush(std::fma(fromBf16(left[r][2 * p]),
                                fromBf16(right[p][2 * c]), even));
          odd = flush(std::fma(fromBf16(left[r][2 * p + 1]),
                               fromBf16(right[p][2 * c + 1]), odd));
        }
        float want = flush(flush(sums[r][c]) + flush(even + odd));
        ASSERT_EQ(std::bit_cast<uint32_t>(element<float>(0, r, c)),
                  std::bit_cast<uint32_t>(want))
            << want << " expected, got " << element<float>(0, r, c);
      }
    expectPaddingZero(0);
  }
}

TEST_F(TileStateTest, Bf16SpecialNumbers) {
  TileConfig config = {};
  config.palette = 1;
  for (int tile : {0, 1, 2})
    setTile(config, tile, 1, 4);
  configure(config);
  auto product = [&](uint16_t a, uint16_t b, float sum) {
    uint32_t left = a, right = b;
    EXPECT_EQ(state->load(0, reinterpret_cast<std::byte *>(&sum), 4), nullptr);
    EXPECT_EQ(state->load(1, reinterpret_cast<std::byte *>(&left), 4), nullptr);
    EXPECT_EQ(state->load(2, reinterpret_cast<std::byte *>(&right), 4),
              nullptr);
    EXPECT_EQ(state->multiply(TileOp::TdpBf16ps, 0, 1, 2), nullptr);
    return element<float>(0, 0, 0);
  };
  constexpr uint16_t one = 0x3f80, most = 0x7f7f, infinity = 0x7f80,
                     nan = 0x7fc0, denormal = 0x0001;
  EXPECT_EQ(product(one, one, 2), 3);
  EXPECT_EQ(product(most, most, 0), std::numeric_limits<float>::infinity());
  EXPECT_EQ(product(infinity, one, 0), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(product(infinity, 0, 1)));
  EXPECT_TRUE(std::isnan(product(nan, one, 1)));
  EXPECT_EQ(product(denormal, most, 5), 5);
  EXPECT_TRUE(std::isnan(product(denormal, infinity, 5))); // zero * infinity
  EXPECT_EQ(product(0, 0, 1e-40f), 0);
}

TEST_F(TileStateTest, LoadsAndStoresOnlyConfiguredBytes) {
  std::mt19937 random(3);
  TileConfig config = configOf(16, 64);
  setTile(config, 3, 5, 12);
  configure(config);
  std::byte memory[16 * 40];
  for (std::byte &byte : memory)
    byte = std::byte(random());
  ASSERT_EQ(state->load(3, memory, 40), nullptr);
  for (int r = 0; r < 5; ++r)
    EXPECT_EQ(std::memcmp(state->data(3) + 64 * r, memory + 40 * r, 12), 0);
  expectPaddingZero(3);
  std::byte stored[16 * 24];
  std::memset(stored, 0x5a, sizeof(stored));
  ASSERT_EQ(state->store(3, stored, 24), nullptr);
  for (int i = 0; i < 16 * 24; ++i) {
    bool inside = i / 24 < 5 && i % 24 < 12;
    ASSERT_EQ(stored[i],
              inside ? memory[i / 24 * 40 + i % 24] : std::byte(0x5a))
        << i;
  }
  // Rows from the last to the first.
  ASSERT_EQ(state->load(3, memory + 160, -40), nullptr);
  EXPECT_EQ(std::memcmp(state->data(3) + 64 * 4, memory, 12), 0);
}

TEST_F(TileStateTest, StartRowResumesALoad) {
  std::mt19937 random(4);
  TileConfig config = configOf(4, 8);
  config.startRow = 2;
  configure(config);
  fill(0, random);
  for (int i = 0; i < 2 * kTileRowBytes; ++i)
    EXPECT_EQ(state->data(0)[i], 0) << "rows before start_row are left alone";
  EXPECT_EQ(std::memcmp(state->data(0) + 128, bytes[0] + 128, 8), 0);
  EXPECT_EQ(state->config().startRow, 0);
}

TEST_F(TileStateTest, ConfigurationsRoundTripAndRelease) {
  std::mt19937 random(5);
  TileConfig config = configOf(7, 20), stored;
  setTile(config, 4, 0, 0);
  config.startRow = 3;
  configure(config);
  state->storeConfig(&stored);
  EXPECT_EQ(std::memcmp(&stored, &config, sizeof(config)), 0);
  fill(0, random);
  // A new configuration zeroes every tile.
  configure(configOf(16, 64));
  for (int tile = 0; tile < kTiles; ++tile)
    for (int i = 0; i < kTileRows * kTileRowBytes; ++i)
      ASSERT_EQ(state->data(tile)[i], 0);
  state->release();
  state->storeConfig(&stored);
  TileConfig zero = {};
  EXPECT_EQ(std::memcmp(&stored, &zero, sizeof(zero)), 0);
  // Palette 0 means a release, whatever the other bytes are.
  configure(config);
  config.palette = 0;
  configure(config);
  EXPECT_EQ(state->config().rows[0], 0);
}

TEST_F(TileStateTest, BadConfigurationsFault) {
  auto expectFault = [&](const char *what, auto change) {
    TileConfig config = configOf(16, 64);
    change(config);
    const char *fault = state->loadConfig(&config);
    ASSERT_NE(fault, nullptr) << what;
    EXPECT_NE(std::string(fault).find(what), std::string::npos) << fault;
  };
  expectFault("palette", [](TileConfig &c) { c.palette = 2; });
  expectFault("reserved", [](TileConfig &c) { c.reserved[13] = 1; });
  expectFault("16 rows", [](TileConfig &c) { c.rows[7] = 17; });
  expectFault("64 bytes", [](TileConfig &c) { c.rowBytes[1] = 68; });
  expectFault("eighth", [](TileConfig &c) { c.rowBytes[8] = 4; });
  expectFault("eighth", [](TileConfig &c) { c.rows[15] = 1; });
  expectFault("without bytes", [](TileConfig &c) { c.rowBytes[2] = 0; });
  expectFault("without bytes", [](TileConfig &c) { c.rows[2] = 0; });
  // A fault keeps the previous configuration.
  configure(configOf(3, 4));
  TileConfig bad = configOf(17, 4);
  EXPECT_NE(state->loadConfig(&bad), nullptr);
  EXPECT_EQ(state->config().rows[0], 3);
}

TEST_F(TileStateTest, BadOperandsFault) {
  std::byte memory[1024] = {};
  auto expectFault = [&](const char *what, const char *fault) {
    ASSERT_NE(fault, nullptr) << what;
    EXPECT_NE(std::string(fault).find(what), std::string::npos) << fault;
  };
  expectFault("no tile configuration", state->load(0, memory, 64));
  expectFault("no tile configuration", state->zero(0));
  expectFault("no tile configuration",
              state->multiply(TileOp::TdpBssd, 0, 1, 2));
  TileConfig config = configOf(16, 64);
  setTile(config, 7, 0, 0);
  setTile(config, 6, 4, 6);
  setTile(config, 5, 8, 64);
  setTile(config, 4, 16, 32);
  configure(config);
  expectFault("not configured", state->load(7, memory, 64));
  expectFault("not configured", state->zero(7));
  expectFault("4-byte", state->store(6, memory, 64));
  expectFault("twice", state->multiply(TileOp::TdpBssd, 0, 0, 2));
  expectFault("twice", state->multiply(TileOp::TdpBssd, 0, 1, 1));
  expectFault("twice", state->multiply(TileOp::TdpBssd, 2, 1, 2));
  expectFault("not configured", state->multiply(TileOp::TdpBuud, 0, 1, 7));
  expectFault("row counts", state->multiply(TileOp::TdpBf16ps, 5, 0, 1));
  expectFault("lengths", state->multiply(TileOp::TdpBsud, 4, 0, 1));
  expectFault("columns", state->multiply(TileOp::TdpBusd, 0, 4, 1));
  EXPECT_EQ(state->multiply(TileOp::TdpBssd, 0, 1, 2), nullptr);
  config.startRow = 16;
  configure(config);
  expectFault("start_row", state->load(0, memory, 64));
}

} // namespace
