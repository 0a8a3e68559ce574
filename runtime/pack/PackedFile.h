//===- PackedFile.h - Weights in their final layout -------------*- C++ -*-===//
//
// The file is divided into chunks at multiples of kPackedChunk. Each thread
// takes the next chunk, computes its bytes for whatever weights are in it, and
// writes them with one call. So the content does not depend on the threads,
// every write is large and aligned (current file systems then use huge pages in
// the page cache), and each thread needs a few MiB. A panel on a chunk boundary
// is computed twice: 18 KiB of 4 MiB for 2048 columns of 4 bits. The thread
// also hashes the chunk while it is in the CPU cache.
//
// moert fills memory in the same way where a plan's weights are laid out while
// they load (FileKind::Loaded).
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_PACK_PACKEDFILE_H
#define MOE_RUNTIME_PACK_PACKEDFILE_H

#include "kernels/Layout.h"
#include "runtime/base/ContentHash.h"
#include "runtime/base/OutputFile.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace moert {

/// Bytes of a write; a multiple of the size of a huge page.
inline constexpr uint64_t kPackedChunk = uint64_t(4) << 20;
static_assert(kPackedChunk % kHashBlock == 0,
              "a chunk consists of whole hash blocks");

/// Produces the rows of a weight in GGUF layout.
class RowSource {
public:
  virtual ~RowSource() = default;
  /// Writes rows first ... first + count - 1 of matrix `matrix` to `out`,
  /// without gaps. Several threads may call it at once.
  virtual Status read(int64_t matrix, int64_t first, int64_t count,
                      uint8_t *out) const = 0;
  /// Says that such rows are not needed any more. Several threads may call it
  /// at once.
  virtual void forget(int64_t matrix, int64_t first, int64_t count) const {}
};

/// A weight of `outer` matrices of `rows` x `cols` at `offset` of the packed
/// file.
struct PackedWeight {
  std::unique_ptr<RowSource> source;
  int64_t outer, rows, cols;
  moek::Format format;
  moek::Layout layout;
  uint64_t offset = 0;

  /// Returns the bytes of a row in the file, and of a row of `source`.
  uint64_t rowBytes() const {
    return moek::rowBytes(layout, format, uint64_t(cols));
  }
  uint64_t sourceRowBytes() const {
    return moek::rowBytes(format, uint64_t(cols));
  }
  uint64_t bytes() const {
    return uint64_t(outer * moek::storedRows(layout, rows)) * rowBytes();
  }
};

struct PackedFile {
  uint64_t headerBytes = 0; ///< Bytes before the first weight.
  /// Weights by ascending offset, without overlaps. Gaps become zeros.
  std::vector<PackedWeight> weights;
  uint64_t bytes = 0; ///< Size of the whole file.
};

/// Returns the fewest rows that a layout stores together.
inline int64_t unitRows(moek::Layout layout) {
  return moek::storedRows(layout, 1);
}

/// Computes ranges of a file. Each thread has one, with buffers of its own.
class ChunkFiller {
public:
  /// `file` must outlive it.
  explicit ChunkFiller(const PackedFile &file) : file_(file) {}

  /// Writes bytes begin ... end - 1 of the file to `out`, with zeros for gaps.
  /// Fails as a source does.
  Status fill(uint64_t begin, uint64_t end, uint8_t *out);

private:
  /// Writes bytes begin ... end - 1 of a weight to `out`. A unit that the range
  /// cuts is computed in a buffer first.
  Status fillFrom(const PackedWeight &weight, uint64_t begin, uint64_t end,
                  uint8_t *out);
  /// Writes up to `count` units from `unit` on, as many as the matrix has, and
  /// returns their number.
  StatusOr<uint64_t> computeUnits(const PackedWeight &weight, uint64_t unit,
                                  uint64_t count, uint8_t *out);
  /// Lets the weight's source forget the rows of bytes begin ... end - 1.
  static void forget(const PackedWeight &weight, uint64_t begin, uint64_t end);

  const PackedFile &file_;
  std::vector<uint8_t> rows_, cut_;
};

/// Hashes that identify the content (runtime/schema/plan.fbs).
struct PackedHashes {
  std::vector<std::string> checksums; ///< One checksum for each weight.
  std::string samples;                ///< Hash of the sampled blocks.
};

/// Writes `file` to `output`, with zeros for the header. Fails with Io, before
/// the first byte if the disk has too little space, with Cancelled, or as a
/// source does.
StatusOr<PackedHashes> writePackedFile(const PackedFile &file,
                                       const OutputFile &output,
                                       const PiecesOptions &options);

} // namespace moert

#endif // MOE_RUNTIME_PACK_PACKEDFILE_H
