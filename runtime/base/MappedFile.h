//===- MappedFile.h - A read-only file mapping ------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_MAPPEDFILE_H
#define MOE_RUNTIME_BASE_MAPPEDFILE_H

#include "runtime/base/InputFile.h"
#include "runtime/base/NodePieces.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace moert {

/// Owns a shared read-only mapping of a whole regular file, in huge pages where
/// the system supports them for files. Pages use memory only once they are
/// touched. Reading beyond the end of a file that was truncated raises SIGBUS;
/// tools install a handler that reports it (installBusHandler).
class MappedFile {
public:
  /// Fails as InputFile::open, and if it cannot be mapped with DoesNotFit (no
  /// addresses) or Io. An empty file maps to an empty span.
  static StatusOr<MappedFile> open(const std::string &path);
  static StatusOr<MappedFile> map(InputFile file);

  MappedFile(MappedFile &&other) noexcept;
  MappedFile &operator=(MappedFile &&other) noexcept;
  ~MappedFile();

  /// Says that single rows between these offsets will be read, in any order:
  /// the system then reads no pages beside them, and copyToMemory() leaves them
  /// in the file. Ranges must be disjoint and ascending.
  void readByRows(uint64_t begin, uint64_t end);

  /// Replaces the mapping by a copy in private memory, in huge pages where
  /// available, which all threads read. This costs memory of the copied bytes
  /// and the time to read them; reading is then faster than from scattered
  /// pages of the page cache. Fails with DoesNotFit or Io and changes nothing
  /// in that case. The copy is of the file that was opened, even if another
  /// file has its name by now.
  ///
  /// Only `extents`, ascending and disjoint, are copied; other bytes are zeros
  /// then. With parts in `places`, huge pages are not used, because parts are
  /// smaller.
  Status copyToMemory(std::span<const Extent> extents,
                      const NodePlaces &places = {},
                      const PiecesOptions &options = {});
  /// Copies the whole file.
  Status copyToMemory();

  /// Bytes of the file or its copy that this process has touched, and how many
  /// of these are in huge pages. Zeros if unknown. Costs milliseconds per GiB.
  struct PageUse {
    uint64_t resident = 0, huge = 0; ///< Sizes in bytes.
  };
  PageUse pageUse() const;

  std::span<const uint8_t> bytes() const { return {data_, size()}; }
  /// Returns whether copyToMemory() has made a copy.
  bool isCopy() const { return isCopy_; }
  const std::string &path() const { return file_.path(); }
  /// The file, for reading without the mapping.
  const InputFile &file() const { return file_; }

private:
  explicit MappedFile(InputFile file) : file_(std::move(file)) {}
  size_t size() const { return static_cast<size_t>(file_.size()); }

  InputFile file_;
  const uint8_t *data_ = nullptr;
  /// The whole pages of ranges that are read by rows: offsets of begin and end.
  std::vector<std::pair<uint64_t, uint64_t>> rowPages_;
  bool isCopy_ = false;
};

/// Turns SIGBUS (a mapped file was truncated while in use) into a message that
/// names the likely cause, and exit code 4. Removes temporaries
/// (Temporaries.h). Call once from a tool's main.
void installBusHandler();

} // namespace moert

#endif // MOE_RUNTIME_BASE_MAPPEDFILE_H
