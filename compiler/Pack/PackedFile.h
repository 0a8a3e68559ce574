//===- PackedFile.h - Weights written in their final layout -----*- C++ -*-===//
//
// The file is cut into chunks at multiples of kPackedChunk. Threads take one
// after another, compute its bytes, whatever weights they belong to, and write
// it where it belongs: what is written does not depend on who wrote it, every
// write is large and aligned (on current file systems the page cache then holds
// huge pages), and memory is a few MiB per thread. A panel that a boundary cuts
// is computed for both sides: 18 KiB of 4 MiB for 2048 columns of 4 bits. What
// a thread has written it also hashes, while it is in the cache.
//
// No LLVM.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_PACK_PACKEDFILE_H
#define MOE_COMPILER_PACK_PACKEDFILE_H

#include "kernels/Layout.h"
#include "runtime/base/ContentHash.h"
#include "runtime/base/OutputFile.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace moec {

/// Bytes written at a time, a multiple of a huge page.
inline constexpr uint64_t kPackedChunk = uint64_t(4) << 20;
static_assert(kPackedChunk % moert::kHashBlock == 0,
              "chunks are hashed on their own");

/// The rows of a weight in GGUF layout, wherever they come from.
class RowSource {
public:
  virtual ~RowSource() = default;
  /// Rows first ... first + count - 1 of matrix `matrix` to `out`, without
  /// gaps. Many threads call it at once.
  virtual moert::Status read(int64_t matrix, int64_t first, int64_t count,
                             uint8_t *out) const = 0;
};

/// `outer` matrices of `rows` x `cols` at `offset` of the packed file.
struct PackedWeight {
  std::unique_ptr<RowSource> source;
  int64_t outer, rows, cols;
  moek::Format format;
  moek::Layout layout;
  uint64_t offset = 0;

  /// As written, and as `source` has it.
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
  uint64_t headerBytes = 0; ///< Before the first weight.
  /// By ascending offset, none over another. Gaps become zeros.
  std::vector<PackedWeight> weights;
  uint64_t bytes = 0; ///< Of the whole file.
};

/// What identifies the content (runtime/schema/plan.fbs).
struct PackedHashes {
  std::vector<std::string> checksums; ///< Of each weight.
  std::string samples;
};

/// Writes all of `file` but its header, which stays zeros, to `output`. Fails
/// with Io (before the first byte where the disk is too full), Cancelled, or as
/// a source does.
moert::StatusOr<PackedHashes>
writePackedFile(const PackedFile &file, const moert::OutputFile &output,
                const moert::PiecesOptions &options);

} // namespace moec

#endif // MOE_COMPILER_PACK_PACKEDFILE_H
