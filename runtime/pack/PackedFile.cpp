#include "runtime/pack/PackedFile.h"

#include "kernels/quant/Rows16.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace moert {

namespace {

/// Bytes read from a source at a time. They and the packed bytes fit the L2
/// cache.
constexpr uint64_t kReadBytes = uint64_t(256) << 10;

/// Consecutive units of one matrix, and the rows in them.
struct Run {
  int64_t matrix, row, rows;
  uint64_t units;
};

/// Returns `count` units from `unit` on, or as many as the matrix has.
Run runOf(const PackedWeight &weight, uint64_t unit, uint64_t count) {
  int64_t perUnit = unitRows(weight.layout);
  uint64_t perMatrix =
      uint64_t(moek::storedRows(weight.layout, weight.rows) / perUnit);
  int64_t row = int64_t(unit % perMatrix) * perUnit;
  count = std::min(count, perMatrix - unit % perMatrix);
  return {int64_t(unit / perMatrix), row,
          std::min(int64_t(count) * perUnit, weight.rows - row), count};
}

uint64_t unitBytesOf(const PackedWeight &weight) {
  return uint64_t(unitRows(weight.layout)) * weight.rowBytes();
}

} // namespace

Status ChunkFiller::fill(uint64_t begin, uint64_t end, uint8_t *out) {
  uint64_t at = begin;
  auto place = [&](uint64_t offset) { return out + (offset - begin); };
  // Find the first weight that ends after `begin`.
  auto weight = std::partition_point(
      file_.weights.begin(), file_.weights.end(),
      [&](const PackedWeight &w) { return w.offset + w.bytes() <= begin; });
  for (; weight != file_.weights.end() && weight->offset < end; ++weight) {
    uint64_t first = std::max(at, weight->offset);
    uint64_t last = std::min(end, weight->offset + weight->bytes());
    std::memset(place(at), 0, first - at);
    const uint64_t from = first - weight->offset, to = last - weight->offset;
    MOE_RETURN_IF_ERROR(fillFrom(*weight, from, to, place(first)));
    forget(*weight, from, to);
    at = last;
  }
  std::memset(place(at), 0, end - at);
  return Status::ok();
}

void ChunkFiller::forget(const PackedWeight &weight, uint64_t begin,
                         uint64_t end) {
  const uint64_t each = unitBytesOf(weight), last = (end + each - 1) / each;
  for (uint64_t unit = begin / each; unit < last;) {
    Run run = runOf(weight, unit, last - unit);
    weight.source->forget(run.matrix, run.row, run.rows);
    unit += run.units;
  }
}

Status ChunkFiller::fillFrom(const PackedWeight &weight, uint64_t begin,
                             uint64_t end, uint8_t *out) {
  uint64_t unitBytes = unitBytesOf(weight);
  uint64_t batch = std::max<uint64_t>(1, kReadBytes / unitBytes);
  while (begin < end) {
    uint64_t unit = begin / unitBytes, inUnit = begin % unitBytes;
    uint64_t whole = (end - begin) / unitBytes;
    uint64_t bytes;
    if (inUnit != 0 || whole == 0) {
      cut_.resize(unitBytes);
      MOE_ASSIGN_OR_RETURN(uint64_t ignored,
                           computeUnits(weight, unit, 1, cut_.data()));
      (void)ignored;
      bytes = std::min(unitBytes - inUnit, end - begin);
      std::memcpy(out, cut_.data() + inUnit, bytes);
    } else {
      MOE_ASSIGN_OR_RETURN(
          uint64_t units,
          computeUnits(weight, unit, std::min(whole, batch), out));
      bytes = units * unitBytes;
    }
    begin += bytes;
    out += bytes;
  }
  return Status::ok();
}

StatusOr<uint64_t> ChunkFiller::computeUnits(const PackedWeight &weight,
                                             uint64_t unit, uint64_t count,
                                             uint8_t *out) {
  const Run run = runOf(weight, unit, count);
  auto read = [&](uint8_t *to) {
    return weight.source->read(run.matrix, run.row, run.rows, to);
  };
  if (weight.layout == moek::Layout::Gguf) {
    MOE_RETURN_IF_ERROR(read(out));
    return run.units;
  }
  uint64_t from = weight.sourceRowBytes(), to = weight.rowBytes();
  rows_.resize(uint64_t(run.rows) * from);
  MOE_RETURN_IF_ERROR(read(rows_.data()));
  for (int64_t r = 0; r < run.rows; r += moek::kRows16)
    if (!moek::packRows16(weight.format, rows_.data() + uint64_t(r) * from,
                          int64_t(from), std::min(moek::kRows16, run.rows - r),
                          weight.cols, out + uint64_t(r) * to))
      return Status(StatusCode::Internal,
                    "a weight was given a layout that it does not have");
  return run.units;
}

StatusOr<PackedHashes> writePackedFile(const PackedFile &file,
                                       const OutputFile &output,
                                       const PiecesOptions &options) {
  MOE_RETURN_IF_ERROR(output.reserve(file.bytes));
  std::vector<Extent> extents;
  for (const PackedWeight &weight : file.weights)
    extents.push_back({weight.offset, weight.bytes()});
  WeightHasher hasher(std::move(extents));
  auto makeTask = [&]() -> PieceTask {
    auto filler = std::make_shared<ChunkFiller>(file);
    auto buffer = std::make_shared<std::vector<uint8_t>>(
        std::min(kPackedChunk, file.bytes));
    return [&, filler, buffer](size_t chunk) -> StatusOr<uint64_t> {
      uint64_t begin = chunk * kPackedChunk;
      uint64_t bytes = std::min(kPackedChunk, file.bytes - begin);
      MOE_RETURN_IF_ERROR(filler->fill(begin, begin + bytes, buffer->data()));
      hasher.add(begin, std::span(*buffer).first(bytes));
      MOE_RETURN_IF_ERROR(output.writeAt(begin, buffer->data(), bytes));
      return bytes;
    };
  };
  size_t chunks = (file.bytes + kPackedChunk - 1) / kPackedChunk;
  PiecesOptions reading = options;
  reading.waits = true;
  MOE_RETURN_IF_ERROR(forEachPiece(chunks, file.bytes, reading, makeTask));
  return PackedHashes{hasher.checksums(), hasher.sampleHash()};
}

} // namespace moert
