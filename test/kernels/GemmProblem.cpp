//===- GemmProblem.cpp - Random weights and activations for gemms ---------===//

#include "test/kernels/GemmProblem.h"

#include "kernels/quant/Blocks.h"
#include "kernels/quant/Dequant.h"
#include "kernels/quant/Rows16.h"
#include "test/kernels/BlockScales.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace moek::test {

namespace {
/// Returns a normal F16 number of either sign between 2^-10 and 2^-3.
Bits16 randomScale(std::mt19937 &random) {
  return Bits16::of(uint16_t((random() & 0x83ff) | (5 + random() % 7) << 10));
}

// Only the F16 numbers of a block must not be arbitrary bits, because these may
// be infinite.
template <class Block> void fixScales(Block &block, std::mt19937 &random) {
  forScales(block, [&](Bits16 &number) { number = randomScale(random); });
}
void fixScales(BlockMXFP4 &block, std::mt19937 &random) {
  block.d = uint8_t(118 + random() % 8);
}
void fixScales(BlockF32 &block, std::mt19937 &random) {
  float value = std::normal_distribution<float>()(random);
  std::memcpy(block.bytes, &value, sizeof(value));
}
void fixScales(BlockF16 &block, std::mt19937 &random) {
  block.value =
      Bits16::of(floatToF16(std::normal_distribution<float>()(random)));
}
void fixScales(BlockBF16 &block, std::mt19937 &random) {
  block.value =
      Bits16::of(floatToBf16(std::normal_distribution<float>()(random)));
}

/// Number of F16 numbers in a block; 1 if the block is a number itself.
template <class Block> int scalesOf(Block &block) {
  int count = Block::kElements == 1;
  forScales(block, [&](auto &) { ++count; });
  return count;
}
template <class Block> void breakBlock(Block &block, int scale, bool infinite) {
  if constexpr (Block::kElements != 1) {
    int i = 0;
    forScales(block, [&](Bits16 &number) {
      if (i++ == scale)
        number = Bits16::of(infinite ? 0x7c00 : 0x7e00);
    });
  } else { // Writes a NaN of any float format, or minus infinity.
    bool isF16 = std::is_same_v<Block, BlockF16>;
    uint16_t bits = !infinite ? 0xffff : isF16 ? 0xfc00 : 0xff80;
    std::memset(&block, infinite ? 0 : 0xff, sizeof(block));
    std::memcpy(reinterpret_cast<uint8_t *>(&block) + sizeof(block) - 2, &bits,
                2);
  }
}

template <class Block>
void randomRow(int64_t cols, std::mt19937 &random, uint8_t *out) {
  auto *blocks = reinterpret_cast<Block *>(out);
  for (int64_t i = 0; i < cols / Block::kElements; ++i) {
    // Some bytes are all ones or all zeros: the extremes of every field.
    uint32_t kind = random() % 8;
    for (size_t b = 0; b < sizeof(Block); ++b)
      reinterpret_cast<uint8_t *>(blocks + i)[b] = kind == 0 ? 0xff
                                                   : kind == 1
                                                       ? 0
                                                       : uint8_t(random());
    fixScales(blocks[i], random);
  }
}

/// Computes, per column, the magnitude that a kernel rounds.
template <class Block>
void boundRow(const uint8_t *row, int64_t cols, float *out) {
  for (int64_t i = 0; i < cols / Block::kElements; ++i) {
    Block block = reinterpret_cast<const Block *>(row)[i];
    float *bounds = out + i * Block::kElements;
    dequantize(block, bounds);
    if constexpr (
        requires { block.m; } || requires { block.dmin; }) {
      // Codes and offsets are summed separately, even where they cancel.
      float offsets[Block::kElements];
      block.d = Bits16::of(0);
      dequantize(block, offsets);
      for (int c = 0; c < Block::kElements; ++c)
        bounds[c] = std::abs(bounds[c] - offsets[c]) + std::abs(offsets[c]);
    } else {
      // A zero point may be subtracted after scaling.
      auto [low, high] = std::minmax_element(bounds, bounds + Block::kElements);
      float largest = std::max(std::abs(*low), std::abs(*high));
      std::fill_n(bounds, Block::kElements, largest);
    }
  }
}

int64_t paddedStride(const GemmInfo &gemm, int64_t cols, uint32_t seed) {
  // In every third problem rows have gaps between them.
  return int64_t(rowBytes(gemm.layout, gemm.format, uint64_t(cols))) +
         (gemm.layout == Layout::Gguf && seed % 3 == 0 ? 34 : 0);
}
/// The last row ends with its last block; a panel is always whole.
size_t weightBytes(const GemmInfo &gemm, int64_t rows, int64_t cols,
                   int64_t stride) {
  if (gemm.layout == Layout::Gguf)
    return size_t((rows - 1) * stride) + rowBytes(gemm.format, uint64_t(cols));
  return size_t((rows + kRows16 - 1) / kRows16 * kRows16 * stride);
}

/// Returns the largest weight that the block's scales can express with any
/// code.
template <class Block> float largestWeight(const Block &block) {
  if constexpr (
      requires { Block::kScales; } && !requires { block.m; } &&
      !requires { block.dmin; }) {
    using Traits = BlockTraits<Block>;
    float most = Traits::kHasNumbers ? 0 : 1;
    if constexpr (Traits::kHasNumbers)
      for (int s = 0; s < Traits::kElements / Traits::kSub; ++s)
        most = std::max(most, std::abs(float(block.scale(s))));
    return std::abs(scaleOf(block)) * most *
           float(std::max(Traits::kHigh, -Traits::kLow));
  }
  float largest = 0;
  // These fill values give the smallest and the largest code of each format,
  // signed and unsigned.
  for (int fill : {0x00, 0xff, 0x7f, 0x80}) {
    Block extreme = block;
    if constexpr (requires { extreme.codes; })
      std::memset(&extreme.codes, fill, sizeof(extreme.codes));
    if constexpr (requires { extreme.low; })
      std::memset(&extreme.low, fill, sizeof(extreme.low));
    if constexpr (requires { extreme.high; })
      std::memset(&extreme.high, fill, sizeof(extreme.high));
    float values[Block::kElements];
    dequantize(extreme, values);
    for (float value : values)
      largest = std::max(largest, std::abs(value));
  }
  return largest;
}

constexpr int64_t kRequantizedCols = 256;

/// Error of AMX's integer tiles: they round weights to multiples of a 127th of
/// the largest that kRequantizedCols columns can have, by half a step, with
/// three more roundings to 64ths of a step.
template <class Block>
void requantizeErrors(const uint8_t *row, int64_t cols, float *out) {
  for (int64_t col = 0; col < cols; col += kRequantizedCols) {
    int64_t count = std::min(kRequantizedCols, cols - col);
    float largest = 0;
    for (int64_t c = col; c < col + count; c += Block::kElements)
      largest = std::max(largest, largestWeight(reinterpret_cast<const Block *>(
                                      row)[c / Block::kElements]));
    std::fill_n(out + col, count, largest / 127 * (0.5f + 3 * 0.5f / 64));
  }
}

std::vector<float> weightErrors(const GemmInfo &gemm, const uint8_t *row,
                                int64_t cols) {
  std::vector<float> errors(size_t(cols), 0.0f);
  bool isBfloat = gemm.format == Format::BF16 || gemm.format == Format::F32;
  if ((gemm.isa == Isa::Amx || (gemm.isa == Isa::Cuda && isBfloat)) &&
      gemm.activation == Encoding::F32) {
    // Activations are split into two BF16 numbers, which keep all but 2^-16;
    // the 32 columns of a tile add more roundings of each number, twice. A
    // GPU's mma does so with F32 weights too, without the product of the low
    // parts.
    float part = gemm.format == Format::F32 ? 3 * 0x1p-16f : 0x1p-16f;
    EXPECT_TRUE(dequantizeRow(gemm.format, row, cols, errors.data()));
    for (float &error : errors)
      error = std::abs(error) * (part + 2 * 20 * 0x1p-24f);
  }
  if (gemm.activation != Encoding::A8K)
    return errors;
  switch (gemm.format) {
#define MOE_FORMAT(name, id, elements, bytes)                                  \
  case Format::name:                                                           \
    requantizeErrors<Block##name>(row, cols, errors.data());                   \
    break;
#include "kernels/quant/Formats.def"
  default:
    ADD_FAILURE() << "no block struct";
  }
  return errors;
}

void boundWeights(Format format, const uint8_t *row, int64_t cols, float *out) {
  switch (format) {
#define MOE_FORMAT(name, id, elements, bytes)                                  \
  case Format::name:                                                           \
    return boundRow<Block##name>(row, cols, out);
#include "kernels/quant/Formats.def"
  default:
    FAIL() << "no block struct";
  }
}
} // namespace

void randomWeights(Format format, int64_t rows, int64_t cols, int64_t stride,
                   std::mt19937 &random, uint8_t *out) {
  for (int64_t r = 0; r < rows; ++r)
    switch (format) {
#define MOE_FORMAT(name, id, elements, bytes)                                  \
  case Format::name:                                                           \
    randomRow<Block##name>(cols, random, out + r * stride);                    \
    break;
#include "kernels/quant/Formats.def"
    default:
      FAIL() << "no block struct";
    }
}

void randomA8Row(int64_t cols, int64_t blockCols, std::mt19937 &random,
                 uint8_t *row) {
  auto *q = reinterpret_cast<int8_t *>(row);
  auto *scales = reinterpret_cast<float *>(row + a8ScaleOffset(cols));
  auto *sums = reinterpret_cast<int16_t *>(row + a8SumOffset(cols));
  for (int64_t block = 0; block < cols / kA8Block; ++block) {
    scales[block] = block * kA8Block % blockCols == 0
                        ? std::exp2(float(random() % 1000) / 100.0f - 8.0f)
                        : scales[block - 1];
    // Blocks of one extreme value are where 16-bit sums would overflow.
    uint32_t kind = random() % 8;
    for (int64_t i = block * kA8Block; i < (block + 1) * kA8Block; ++i)
      q[i] = int8_t(kind == 0   ? 127
                    : kind == 1 ? -127
                                : int(random() % 255) - 127);
  }
  for (int64_t i = 0; i < cols / 16; ++i) {
    int sum = 0;
    for (int64_t j = 16 * i; j < 16 * i + 16; ++j)
      sum += q[j];
    sums[i] = int16_t(sum);
  }
  std::fill(row + a8SumOffset(cols) + cols / 16 * 2, row + a8RowBytes(cols),
            uint8_t(0xa5));
}

std::vector<double> decodeActivation(Encoding encoding, const uint8_t *row,
                                     int64_t cols) {
  std::vector<double> values(size_t(cols), 0.0);
  const auto *floats = reinterpret_cast<const float *>(row);
  const auto *q = reinterpret_cast<const int8_t *>(row);
  const auto *scales =
      reinterpret_cast<const float *>(row + a8ScaleOffset(cols));
  for (size_t c = 0; c < values.size(); ++c)
    values[c] = encoding == Encoding::F32
                    ? double(floats[c])
                    : double(q[c]) * double(scales[c / kA8Block]);
  return values;
}

std::vector<uint8_t> layOut(Layout layout, Format format,
                            const std::vector<uint8_t> &rows, int64_t count,
                            int64_t cols) {
  if (layout == Layout::Gguf)
    return rows;
  int64_t fileStride = int64_t(rowBytes(format, uint64_t(cols)));
  int64_t stride = int64_t(rowBytes(layout, format, uint64_t(cols)));
  int64_t panels = (count + kRows16 - 1) / kRows16;
  std::vector<uint8_t> out(size_t(panels * kRows16 * stride), 0xee);
  for (int64_t r = 0; r < count; r += kRows16)
    EXPECT_TRUE(packRows16(format, rows.data() + r * fileStride, fileStride,
                           std::min(count - r, kRows16), cols,
                           out.data() + r * stride));
  return out;
}

GemmProblem::GemmProblem(const GemmInfo &gemm, int64_t rows, int64_t tokens,
                         int64_t cols, uint32_t seed)
    : gemm_(gemm), rows_(rows), cols_(cols),
      stride_(paddedStride(gemm, cols, seed)),
      fileStride_(gemm.layout == Layout::Gguf
                      ? stride_
                      : int64_t(rowBytes(gemm.format, uint64_t(cols)))),
      file_(size_t(rows * fileStride_)),
      weights_(weightBytes(gemm, rows, cols, stride_)),
      activations_(size_t(tokens * encodedRowBytes(gemm.activation, cols))) {
  std::mt19937 random(seed);
  randomWeights(gemm.format, rows, cols, fileStride_, random, file_.data());
  layOutWeights();
  std::normal_distribution<float> normal;
  int64_t rowSize = encodedRowBytes(gemm.activation, cols);
  for (int64_t t = 0; t < tokens; ++t) {
    uint8_t *row = activations_.data() + (tokens - 1 - t) * rowSize;
    if (isA8(gemm.activation))
      randomA8Row(cols, a8BlockCols(gemm.activation), random, row);
    else
      for (int64_t c = 0; c < cols; ++c)
        reinterpret_cast<float *>(row)[c] = normal(random);
    pointers_.push_back(row);
    decoded_.push_back(decodeActivation(gemm.activation, row, cols));
  }
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<float> values(size_t(cols), 0.0f), bounds(size_t(cols), 0.0f);
    EXPECT_TRUE(dequantizeRow(gemm.format, file_.data() + r * fileStride_, cols,
                              values.data()));
    boundWeights(gemm.format, file_.data() + r * fileStride_, cols,
                 bounds.data());
    values_.push_back(std::move(values));
    bounds_.push_back(std::move(bounds));
    errors_.push_back(weightErrors(gemm, file_.data() + r * fileStride_, cols));
  }
}

void GemmProblem::layOutWeights() {
  std::vector<uint8_t> laidOut =
      layOut(gemm_.layout, gemm_.format, file_, rows_, cols_);
  std::copy_n(laidOut.data(), weightBytes(gemm_, rows_, cols_, stride_),
              weights_.data());
}

GemmProblem::Expected GemmProblem::expected(int64_t row, int64_t token) const {
  const std::vector<float> &w = values_[size_t(row)];
  const std::vector<float> &bound = bounds_[size_t(row)];
  const std::vector<double> &x = decoded_[size_t(token)];
  double value = 0, norm = 0, requantized = 0;
  for (size_t c = 0; c < w.size(); ++c) {
    value += double(w[c]) * x[c];
    norm += double(bound[c]) * std::abs(x[c]);
    requantized += double(errors_[size_t(row)][c]) * std::abs(x[c]);
  }
  // Half a unit in the last place (2^-24) per rounding: about five per product
  // (scales, their product, conversion, FMA), then a chain of additions. A
  // vector sum of n terms in 8 lanes has a chain of at least n / 32; in
  // practice errors add up like a random walk, but this is the bound.
  double roundings = 8 + double(cols_) / 32;
  double each = roundings * 0x1p-24;
  if (gemm_.isa == Isa::Cuda && isA8(gemm_.activation) && decoded_.size() > 2)
    each += panelRounding;
  return {value, each * norm + requantized};
}

int GemmProblem::scaleCount(Format format) {
  int count = 0;
  switch (format) {
#define MOE_FORMAT(name, id, elements, bytes)                                  \
  case Format::name: {                                                         \
    Block##name block{};                                                       \
    count = scalesOf(block);                                                   \
    break;                                                                     \
  }
#include "kernels/quant/Formats.def"
  default:
    ADD_FAILURE() << "no block struct";
  }
  return count;
}

void GemmProblem::breakRow(int64_t row, int64_t block, int scale,
                           bool infinite) {
  uint8_t *from = file_.data() + row * fileStride_;
  switch (gemm_.format) {
#define MOE_FORMAT(name, id, elements, bytes)                                  \
  case Format::name:                                                           \
    breakBlock(reinterpret_cast<Block##name *>(from)[block], scale, infinite); \
    break;
#include "kernels/quant/Formats.def"
  default:
    FAIL() << "no block struct";
  }
  layOutWeights();
}

void GemmProblem::makeUnit(int64_t token, int64_t col, int8_t q) {
  uint8_t *row = activation(token);
  if (isA8(gemm_.activation)) {
    auto *sums = reinterpret_cast<int16_t *>(row + a8SumOffset(cols_));
    std::fill_n(row, cols_, uint8_t(0));
    std::fill_n(sums, cols_ / 16, int16_t(0));
    row[col] = uint8_t(q);
    sums[col / 16] = q;
  } else {
    std::fill_n(reinterpret_cast<float *>(row), cols_, 0.0f);
    reinterpret_cast<float *>(row)[col] = q;
  }
  decoded_[size_t(token)] = decodeActivation(gemm_.activation, row, cols_);
}

} // namespace moek::test
