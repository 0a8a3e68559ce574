//===- AtomicFile.h - Output that appears whole or not at all ---*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_ATOMICFILE_H
#define MOE_RUNTIME_BASE_ATOMICFILE_H

#include "runtime/base/Status.h"

#include <cstddef>
#include <string>

namespace moert {

/// Writes beside the final path under a temporary name, and renames at
/// commit(). Destroyed without a commit it leaves nothing behind, and a file
/// that was at the path before is untouched.
class AtomicFile {
public:
  /// Fails with Io, naming `path`.
  static StatusOr<AtomicFile> create(const std::string &path);

  AtomicFile(AtomicFile &&other) noexcept;
  AtomicFile &operator=(AtomicFile &&other) noexcept;
  ~AtomicFile();

  Status write(const void *data, size_t bytes);
  /// Flushes to the disk and gives the file its name.
  Status commit();

private:
  AtomicFile() = default;
  Status failure(const char *what) const;

  std::string path_, temporary_;
  int fd_ = -1;
};

} // namespace moert

#endif // MOE_RUNTIME_BASE_ATOMICFILE_H
