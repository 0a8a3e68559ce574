//===- PackedFile.h - Weights written in their final layout -----*- C++ -*-===//
//
// The file is cut into chunks at multiples of kPackedChunk. Threads take one
// after another, compute its bytes, whatever weights they belong to, and write
// it where it belongs: what is written does not depend on who wrote it, every
// write is large and aligned (on current file systems the page cache then holds
// huge pages), and memory is a few MiB per thread. A panel that a boundary cuts
// is computed for both sides: 18 KiB of 4 MiB for 2048 columns of 4 bits.
//
// No LLVM.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_PACK_PACKEDFILE_H
#define MOE_COMPILER_PACK_PACKEDFILE_H

#include "kernels/Layout.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace moec {

/// Bytes written at a time, a multiple of a huge page.
inline constexpr uint64_t kPackedChunk = uint64_t(4) << 20;

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

  uint64_t rowBytes() const { return moek::rowBytes(format, uint64_t(cols)); }
  uint64_t bytes() const {
    return uint64_t(outer * moek::storedRows(layout, rows)) * rowBytes();
  }
};

struct PackedFile {
  std::string path;
  std::string header; ///< What the file begins with.
  /// By ascending offset, none over another. Gaps become zeros.
  std::vector<PackedWeight> weights;
  uint64_t bytes = 0; ///< Of the whole file.
};

struct WritePackedOptions {
  int threads = 0; ///< 0 for one per core.
  /// Called by the calling thread after each of its chunks and at the end with
  /// the bytes written so far and in all; false gives up. May be empty.
  std::function<bool(uint64_t done, uint64_t total)> progress;
};

/// Writes `file` under a temporary name and gives it its name when it is
/// complete. Fails with Io (before the first byte where the disk is too full),
/// Cancelled, or as a source does, and then leaves what was at the path.
moert::Status writePackedFile(const PackedFile &file,
                              const WritePackedOptions &options);

} // namespace moec

#endif // MOE_COMPILER_PACK_PACKEDFILE_H
