//===- InputFile.h - A file that is read at offsets -------------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_INPUTFILE_H
#define MOE_RUNTIME_BASE_INPUTFILE_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>

namespace moert {

/// An open regular file. It remains the same file when another file is renamed
/// to its path.
class InputFile {
public:
  /// Fails with Io for a missing file, a directory or a device, naming `path`.
  static StatusOr<InputFile> open(const std::string &path);

  InputFile(InputFile &&other) noexcept;
  InputFile &operator=(InputFile &&other) noexcept;
  ~InputFile();

  /// Reads bytes offset ... offset + bytes - 1 into `out`. Many threads may
  /// call it. Fails with Io, also if the file has become shorter (no signal is
  /// raised).
  Status readAt(uint64_t offset, void *out, uint64_t bytes) const;

  /// Returns whether these bytes are a hole of a sparse file, and so zeros;
  /// false if the file system does not report holes.
  bool isHole(uint64_t offset, uint64_t bytes) const;

  /// Size at the time of opening.
  uint64_t size() const { return size_; }
  const std::string &path() const { return path_; }
  int descriptor() const { return fd_; }

private:
  InputFile() = default;
  int fd_ = -1;
  uint64_t size_ = 0;
  std::string path_;
};

} // namespace moert

#endif // MOE_RUNTIME_BASE_INPUTFILE_H
