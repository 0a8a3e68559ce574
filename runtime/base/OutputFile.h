//===- OutputFile.h - Output that appears whole or not at all ---*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_OUTPUTFILE_H
#define MOE_RUNTIME_BASE_OUTPUTFILE_H

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace moert {

/// Writes beside the final path under a temporary name, and renames at
/// commit(). Destroyed without a commit it leaves nothing behind, and a file
/// that was at the path before is untouched. What a killed process left is
/// removed when the same path is next written; a writer that is still at work
/// holds a lock on its file.
class OutputFile {
public:
  /// Fails with Io, naming `path`.
  static StatusOr<OutputFile> create(const std::string &path);
  /// Removes temporary files for `path` that no process is writing.
  static void removeStale(const std::filesystem::path &path);

  OutputFile(OutputFile &&other) noexcept;
  OutputFile &operator=(OutputFile &&other) noexcept;
  ~OutputFile();

  /// Appends.
  Status write(const void *data, size_t bytes);
  /// Writes at `offset`, and lets the disk begin with it; many threads may.
  Status writeAt(uint64_t offset, const void *data, size_t bytes) const;
  /// Takes the disk space for `bytes` bytes now, where the file system can: a
  /// full disk or quota is then found before the first byte.
  Status reserve(uint64_t bytes) const;
  /// Flushes to the disk and gives the file its name.
  Status commit();

private:
  OutputFile() = default;
  Status failure(const char *what) const;

  std::string path_, temporary_;
  int fd_ = -1;
};

} // namespace moert

#endif // MOE_RUNTIME_BASE_OUTPUTFILE_H
