//===- OutputFile.h - Files that appear complete or not at all --*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_OUTPUTFILE_H
#define MOE_RUNTIME_BASE_OUTPUTFILE_H

#include "runtime/base/OutputTarget.h"
#include "runtime/base/Temporaries.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace moert {

/// Writes to a temporary file (Temporaries.h) next to the final path, and
/// renames it at commit(). If it is destroyed without a commit, nothing
/// remains, and an earlier file at the path is untouched. Temporaries.h
/// describes what happens at signals and with stale temporaries.
///
/// A symbolic link stays, and its target is replaced. The new file gets the
/// mode of the replaced one and, as far as the user may set them, its owner and
/// group; access control lists and extended attributes are lost. Other hard
/// links of the replaced file keep the old content.
///
/// "-", the names of descriptors, FIFOs and character devices are never
/// replaced: bytes are written to them directly and in order. Folders, block
/// devices and sockets are refused.
class OutputFile {
public:
  enum class Content { Text, Binary };

  /// Fails with Io, naming the path; with Usage if the target's rule forbids
  /// the output, or for binary content to a terminal; with Cancelled if a
  /// signal interrupts the wait for a FIFO's reader.
  static StatusOr<OutputFile> create(OutputTarget target,
                                     Content content = Content::Text);

  OutputFile(OutputFile &&other) noexcept;
  OutputFile &operator=(OutputFile &&other) noexcept;
  ~OutputFile();

  /// Appends bytes.
  Status write(const void *data, size_t bytes);
  /// Writes at `offset` and starts the transfer to the disk. Many threads may
  /// call it. Fails with Usage if the output is a stream.
  Status writeAt(uint64_t offset, const void *data, size_t bytes) const;
  /// Allocates disk space for `bytes` bytes now, if the file system can, so
  /// that a full disk or quota is found before the first byte is written.
  Status reserve(uint64_t bytes) const;
  /// Path at which the output can be read before its commit; "" for a stream.
  const std::string &temporary() const { return temporary_; }
  /// Waits until everything written is on the disk.
  Status flush() const;
  /// Checks the target's rule again, because the existing file may have changed
  /// since create().
  Status recheck() const { return target_.check().status(); }
  /// Flushes to the disk and gives the file its name, durably. Returns the
  /// errors of recheck().
  Status commit();
  /// Commits under another name in the same folder.
  Status commitAs(const std::string &path);
  /// Returns whether the file has its name. This may be so even if commit()
  /// failed: the rename may not be durable then.
  bool isCommitted() const { return committed_; }

private:
  explicit OutputFile(OutputTarget target) : target_(std::move(target)) {}
  Status openStream();
  Status openTemporary();
  Status replace(const std::string &path);
  Status failure(const char *what) const;

  OutputTarget target_;
  std::string path_; ///< As given by the user, for messages.
  OutputPlace place_;
  std::string temporary_; ///< "" if the output is a stream.
  RemovedOnSignal removed_;
  int fd_ = -1;
  bool committed_ = false;
};

/// Makes renames in a folder durable.
Status flushFolder(const std::string &folder);

/// Creates an output, writes all of it and commits it.
Status writeOutput(OutputTarget target, std::string_view bytes,
                   OutputFile::Content content = OutputFile::Content::Text);

} // namespace moert

#endif // MOE_RUNTIME_BASE_OUTPUTFILE_H
