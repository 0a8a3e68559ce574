//===- MappedFile.h - A read-only file mapping ------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_MAPPEDFILE_H
#define MOE_RUNTIME_BASE_MAPPEDFILE_H

#include "runtime/base/InputFile.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace moert {

/// Bytes of a file that only the workers on one memory node read.
struct NodeBytes {
  uint64_t begin, end;
  int node;

  bool operator==(const NodeBytes &) const = default;
};

/// Owns a shared read-only mapping of a whole regular file, in huge pages where
/// the system has them for files. Mapping costs no memory until pages are
/// touched. Reading beyond a file that shrinks later
/// raises SIGBUS; tools install a handler that reports it (installBusHandler).
class MappedFile {
public:
  /// Fails as InputFile::open, and with Io where it cannot be mapped. An empty
  /// file maps to an empty span.
  static StatusOr<MappedFile> open(const std::string &path);
  static StatusOr<MappedFile> map(InputFile file);

  MappedFile(MappedFile &&other) noexcept;
  MappedFile &operator=(MappedFile &&other) noexcept;
  ~MappedFile();

  /// Replaces the mapping by a copy in private memory, in huge pages where the
  /// system gives them: costs the file's size in memory and the time to read
  /// it, and reads faster than the page cache where that is scattered. Fails
  /// with DoesNotFit or Io, and then changes nothing. It is a copy of the file
  /// that was opened, also where another has its name by now.
  ///
  /// `parts`, ascending and apart, go to the memory of their nodes, by calling
  /// prefer(node) before each is touched and prefer(-1) before what is in none.
  /// They are smaller than huge pages, which are then left out.
  Status copyToMemory(std::span<const NodeBytes> parts = {},
                      const std::function<void(int node)> &prefer = {});

  /// What of the file or its copy this process has touched, and of that what it
  /// reads through huge pages. Zeros where the system does not tell. Costs
  /// milliseconds per GiB.
  struct PageUse {
    uint64_t resident = 0, huge = 0; ///< Bytes.
  };
  PageUse pageUse() const;

  std::span<const uint8_t> bytes() const { return {data_, size()}; }
  const std::string &path() const { return file_.path(); }

private:
  explicit MappedFile(InputFile file) : file_(std::move(file)) {}
  size_t size() const { return static_cast<size_t>(file_.size()); }

  InputFile file_;
  const uint8_t *data_ = nullptr;
};

/// Turns SIGBUS (a mapped file was truncated while in use) into a message that
/// names the likely cause and exit code 4; temporaries (Temporaries.h) are
/// removed. Call once from a tool's main.
void installBusHandler();

} // namespace moert

#endif // MOE_RUNTIME_BASE_MAPPEDFILE_H
