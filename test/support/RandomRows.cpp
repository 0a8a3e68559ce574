#include "test/support/RandomRows.h"

#include "kernels/quant/Dequant.h"
#include "test/kernels/BlockScales.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

using moek::Format;

namespace moetest {

namespace {

constexpr uint64_t mix(uint64_t z) {
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

/// splitmix64.
class Random {
public:
  explicit Random(uint64_t state) : state_(state) {}
  uint64_t next() { return mix(state_ += 0x9e3779b97f4a7c15); }
  /// Between 0 and 1.
  float uniform() { return float(next() >> 40) * 0x1p-24f; }
  void fill(void *out, size_t bytes) {
    auto *to = static_cast<uint8_t *>(out);
    for (; bytes >= 8; bytes -= 8, to += 8) {
      uint64_t bits = next();
      std::memcpy(to, &bits, 8);
    }
    uint64_t bits = next();
    std::memcpy(to, &bits, bytes);
  }

private:
  uint64_t state_;
};

/// Parameters of a format's blocks, for weights of deviation 1.
struct Scales {
  double d = 1;      ///< Factor of the codes.
  double offset = 0; ///< The format's m or dmin, which makes the mean 0.
};

template <class Block> constexpr bool kIsNumber = Block::kElements == 1;

/// Sets a block's numbers to `scales`, times `factor`.
template <class Block>
void setScales(Block &block, const Scales &scales, double factor) {
  int i = 0;
  moek::test::forScales(block, [&](moek::Bits16 &number) {
    number = moek::Bits16::of(moek::floatToF16(
        float((i++ == 0 ? scales.d : scales.offset) * factor)));
  });
}
void setScales(moek::BlockMXFP4 &block, const Scales &scales, double factor) {
  block.d = uint8_t(128 + std::lround(std::log2(scales.d * factor)));
}
void setScales(moek::BlockNVFP4 &block, const Scales &scales, double factor) {
  std::fill_n(block.scales, 4, uint8_t(0x7e));
  while (block.scales[0] > 1 && block.scale(0) > scales.d * factor)
    std::fill_n(block.scales, 4, uint8_t(block.scales[0] - 1));
}

/// Mean and deviation of blocks with these numbers.
template <class Block>
std::pair<double, double> momentsOf(const Scales &scales) {
  constexpr int kBlocks = 256;
  Random random(1);
  double sum = 0, squares = 0;
  for (int i = 0; i < kBlocks; ++i) {
    Block block;
    random.fill(&block, sizeof(block));
    setScales(block, scales, 1);
    float values[Block::kElements];
    dequantize(block, values);
    for (float value : values) {
      sum += double(value);
      squares += double(value) * double(value);
    }
  }
  constexpr double kCount = double(kBlocks) * Block::kElements;
  return {sum / kCount, std::sqrt(squares / kCount)};
}

template <class Block> Scales scalesOf() {
  Scales scales;
  if constexpr (
      requires(Block block) { block.m; } ||
      requires(Block block) { block.dmin; })
    scales.offset =
        -momentsOf<Block>({1, 0}).first / momentsOf<Block>({0, 1}).first;
  double deviation = momentsOf<Block>(scales).second;
  return {scales.d / deviation, scales.offset / deviation};
}

/// Writes a row of `cols` random weights.
template <class Block>
void drawBlocks(Random &random, int64_t cols, bool isVector, uint8_t *out) {
  auto *blocks = reinterpret_cast<Block *>(out);
  double factor = 1 / std::sqrt(double(cols));
  if constexpr (kIsNumber<Block>) {
    for (int64_t i = 0; i < cols; ++i) {
      // The sum of four has a variance of 4 / 12.
      float value = isVector ? 0.9f + 0.2f * random.uniform()
                             : float(std::sqrt(3.0) * factor) *
                                   (random.uniform() + random.uniform() +
                                    random.uniform() + random.uniform() - 2);
      if constexpr (std::is_same_v<Block, moek::BlockF32>)
        std::memcpy(blocks + i, &value, sizeof(value));
      else if constexpr (std::is_same_v<Block, moek::BlockF16>)
        blocks[i].value = moek::Bits16::of(moek::floatToF16(value));
      else
        blocks[i].value = moek::Bits16::of(moek::floatToBf16(value));
    }
  } else {
    static const Scales scales = scalesOf<Block>();
    random.fill(out, size_t(cols / Block::kElements) * sizeof(Block));
    for (int64_t i = 0; i < cols / Block::kElements; ++i)
      setScales(blocks[i], scales, factor);
  }
}

} // namespace

void drawRow(Format format, uint64_t weight, uint64_t row, int64_t cols,
             bool isVector, uint8_t *out) {
  Random random(mix(mix(weight + 1) ^ row));
  switch (format) {
#define MOE_FORMAT(name, id, elements, bytes)                                  \
  case Format::name:                                                           \
    return drawBlocks<moek::Block##name>(random, cols, isVector, out);
#include "kernels/quant/Formats.def"
  default: // The default is zero, as for tables of numbers.
    std::memset(out, 0, moek::rowBytes(format, uint64_t(cols)));
  }
}

} // namespace moetest
