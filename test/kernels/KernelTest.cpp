#include "test/kernels/KernelTest.h"

#include "kernels/KvCache.h"
#include "kernels/quant/Dequant.h"
#include "kernels/quant/Half.h"

namespace moek::test {

namespace {
constexpr size_t kGuard = 256;
constexpr auto kGuardByte = std::byte{0xa5};
} // namespace

Guarded::Guarded(size_t bytes)
    : bytes(bytes), storage(new std::byte[bytes + 2 * kGuard + 64]) {
  auto address = reinterpret_cast<uintptr_t>(storage.get()) + kGuard;
  payload = storage.get() + kGuard + (64 - address % 64) % 64;
  std::memset(payload - kGuard, int(kGuardByte), kGuard);
  std::memset(payload + bytes, int(kGuardByte), kGuard);
}

void Guarded::expectGuardsIntact(const char *what) const {
  for (size_t i = 1; i <= kGuard; ++i) {
    ASSERT_EQ(payload[-ptrdiff_t(i)], kGuardByte)
        << what << ": written " << i << " bytes before its begin";
    ASSERT_EQ(payload[bytes + i - 1], kGuardByte)
        << what << ": written " << i << " bytes past its end";
  }
}

std::vector<TestWorkers> testTeams() {
  return {{1, 1, false}, {2, 1, false}, {3, 1, false}, {7, 1, false},
          {1, 1, true},  {2, 1, true},  {3, 1, true},  {7, 1, true},
          {2, 2, false}, {7, 2, true},  {9, 4, true}};
}

Worker TestWorkers::worker(int index, std::byte *scratch) {
  Worker worker{index, workers, scratch};
  int node = 0;
  while ((node + 1) * workers / nodes <= index)
    ++node;
  worker.nodeBegin = node * workers / nodes;
  worker.nodeEnd = (node + 1) * workers / nodes;
  if (withTickets) {
    tickets.resize(size_t(workers * kTicketStride));
    worker.tickets = tickets.data();
    worker.ticketStride = kTicketStride;
  }
  return worker;
}

std::string kernelName(const testing::TestParamInfo<KernelInfo> &info) {
  return std::string(info.param.name);
}

namespace {
/// Offsets of a block's F16 scales. Random bits there could be infinities.
std::vector<size_t> scaleOffsets(Format format) {
  switch (format) {
  case Format::Q4_1:
  case Format::Q5_1:
  case Format::Q4_K:
  case Format::Q5_K:
    return {0, 2};
  case Format::Q2_K:
    return {80, 82};
  case Format::Q3_K:
    return {108};
  case Format::Q6_K:
    return {208};
  case Format::TQ1_0:
    return {52};
  case Format::TQ2_0:
    return {64};
  default:
    return {0};
  }
}
} // namespace

Weights::Weights(Format format, int64_t outer, int64_t rows, int64_t cols,
                 Random &random, float scale) {
  int64_t bytes = int64_t(rowBytes(format, uint64_t(cols)));
  // Rows have gaps, which shows kernels that ignore the stride.
  int64_t rowStride = bytes + 8, outerStride = rowStride * rows + 16;
  memory = std::make_unique<Guarded>(size_t(outer * outerStride));
  memory->poison();
  auto *data = reinterpret_cast<uint8_t *>(memory->data());
  view = {data, outer, rows, cols, outerStride, rowStride, format};
  FormatInfo info = formatInfo(format);
  std::vector<float> floats(static_cast<size_t>(cols));
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t r = 0; r < rows; ++r) {
      uint8_t *row = data + o * outerStride + r * rowStride;
      for (int64_t i = 0; i < bytes; ++i)
        row[i] = random.byte();
      for (int64_t c = 0; c < cols; c += info.blockElements) {
        uint8_t *block = row + c / info.blockElements * info.blockBytes;
        float x = random.normal(scale);
        uint16_t half = format == Format::BF16 ? floatToBf16(x)
                        : format == Format::F16
                            ? floatToF16(x)
                            : floatToF16(std::fabs(x) / float(info.blockBytes));
        if (format == Format::F32)
          std::memcpy(block, &x, 4);
        else if (format == Format::MXFP4)
          block[0] = uint8_t(116 + random.byte() %
                                       8); // The scale byte is an exponent.
        else
          for (size_t offset : scaleOffsets(format))
            std::memcpy(block + offset, &half, 2);
      }
      EXPECT_TRUE(dequantizeRow(format, row, cols, floats.data()));
      values.insert(values.end(), floats.begin(), floats.end());
    }
}

Cache::Cache(KvType type, int64_t width, int64_t capacity, int64_t filled,
             Random &random, int64_t gap)
    : rowsPerUnit(type == KvType::Q8_0 ? kKvTile : 1),
      memory(kvRows(type, capacity) / rowsPerUnit,
             kvRowBytes(type, width) * rowsPerUnit, gap * rowsPerUnit) {
  view = {memory.data(), width, capacity, memory.stride / rowsPerUnit, type};
  for (int64_t r = 0; r < filled; ++r)
    if (type == KvType::Q8_0)
      fillQ8(r, random);
    else
      for (int64_t c = 0; c < width; ++c)
        set(r, c, random.normal());
  memory.keepAsInitial();
}

uint8_t *Cache::code(int64_t row, int64_t col) const {
  return memory.row(row / kKvTile) + col / 4 * 4 * kKvTile + row % kKvTile * 4 +
         col % 4;
}

float *Cache::scale(int64_t row, int64_t col) const {
  return reinterpret_cast<float *>(memory.row(row / kKvTile) +
                                   kvScaleOffset(view.width)) +
         col / kKvBlock * kKvTile + row % kKvTile;
}

/// Random codes, except in the padding, with scales of several sizes.
void Cache::fillQ8(int64_t row, Random &random) {
  for (int64_t c = 0; c < kvBlocks(view.width) * kKvBlock; ++c) {
    *code(row, c) =
        c < view.width ? uint8_t(1 + random.below(255)) : uint8_t(kKvZeroCode);
    if (c % kKvBlock == 0)
      *scale(row, c) = std::fabs(random.normal(1 / 73.0f));
  }
}

double Cache::at(int64_t row, int64_t col) const {
  if (view.type == KvType::Q8_0)
    return double(*scale(row, col)) * (*code(row, col) - int(kKvZeroCode));
  const uint8_t *p = memory.row(row);
  float wide;
  uint16_t narrow;
  switch (view.type) {
  case KvType::F32:
    std::memcpy(&wide, p + col * 4, 4);
    return wide;
  case KvType::F16:
    std::memcpy(&narrow, p + col * 2, 2);
    return f16ToFloat(narrow);
  case KvType::BF16:
    std::memcpy(&narrow, p + col * 2, 2);
    return bf16ToFloat(narrow);
  case KvType::Q8_0:
    break;
  }
  return NAN;
}

void Cache::fill(int64_t row, const std::vector<float> &x) {
  for (int64_t c = 0; c < view.width; ++c) {
    if (view.type != KvType::Q8_0) {
      set(row, c, x[size_t(c)]);
      continue;
    }
    int64_t begin = c / kKvBlock * kKvBlock;
    float most = 1e-9f;
    for (int64_t i = begin; i < std::min(view.width, begin + kKvBlock); ++i)
      most = std::fmax(most, std::fabs(x[size_t(i)]));
    *scale(row, c) = most / 127;
    *code(row, c) =
        uint8_t(kKvZeroCode + std::lround(x[size_t(c)] * 127 / most));
  }
}

std::vector<uint8_t> Cache::rowBytes(int64_t row) const {
  const uint8_t *p = memory.row(row / rowsPerUnit);
  if (view.type != KvType::Q8_0)
    return {p, p + memory.cols};
  std::vector<uint8_t> bytes;
  for (int64_t c = 0; c < kvBlocks(view.width) * kKvBlock; ++c)
    bytes.push_back(*code(row, c));
  for (int64_t c = 0; c < view.width; c += kKvBlock) {
    auto *p = reinterpret_cast<const uint8_t *>(scale(row, c));
    bytes.insert(bytes.end(), p, p + sizeof(float));
  }
  return bytes;
}

void Cache::set(int64_t row, int64_t col, float value) {
  if (view.type == KvType::Q8_0) {
    EXPECT_TRUE(std::isnan(value)) << "only a NaN fits any block";
    *scale(row, col) = value;
    return;
  }
  uint8_t *p = memory.row(row);
  uint16_t narrow =
      view.type == KvType::F16 ? floatToF16(value) : floatToBf16(value);
  if (view.type == KvType::F32)
    std::memcpy(p + col * 4, &value, 4);
  else
    std::memcpy(p + col * 2, &narrow, 2);
}

} // namespace moek::test
