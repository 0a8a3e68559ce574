//===- OutputFile.h - Output that appears whole or not at all ---*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_OUTPUTFILE_H
#define MOE_RUNTIME_BASE_OUTPUTFILE_H

#include "runtime/base/OutputTarget.h"
#include "runtime/base/Temporaries.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace moert {

/// Writes beside the final path under a temporary name (Temporaries.h), and
/// renames at commit(). Destroyed without a commit it leaves nothing behind,
/// and a file that was at the path before is untouched; signals and stale
/// temporaries are as Temporaries.h says.
///
/// A symbolic link stays, and what it leads to is replaced. A file that is
/// replaced hands down its mode, and its owner and group as far as this user
/// may give them away; access control lists and extended attributes are lost.
/// Where it had other names (hard links), those keep the old content.
///
/// "-", the names of descriptors, FIFOs and character devices are never
/// replaced: what is written goes there at once, and in order. Folders, block
/// devices and sockets are refused.
class OutputFile {
public:
  enum class Content { Text, Binary };

  /// Fails with Io, naming the path; with Usage where the target's rule forbids
  /// the output, and for binary content that would go to a terminal; with
  /// Cancelled where a signal ends the wait for a FIFO's reader.
  static StatusOr<OutputFile> create(OutputTarget target,
                                     Content content = Content::Text);

  OutputFile(OutputFile &&other) noexcept;
  OutputFile &operator=(OutputFile &&other) noexcept;
  ~OutputFile();

  /// Appends.
  Status write(const void *data, size_t bytes);
  /// Writes at `offset`, and lets the disk begin with it; many threads may.
  /// Fails with Usage where the output is a stream.
  Status writeAt(uint64_t offset, const void *data, size_t bytes) const;
  /// Takes the disk space for `bytes` bytes now, where the file system can: a
  /// full disk or quota is then found before the first byte.
  Status reserve(uint64_t bytes) const;
  /// Where what was written can be read until it has its name; "" of a stream.
  const std::string &temporary() const { return temporary_; }
  /// Waits until the disk has what was written.
  Status flush() const;
  /// Whether the target's rule still allows the output, as what is there may
  /// have changed since create().
  Status recheck() const { return target_.check().status(); }
  /// Flushes to the disk and gives the file its name, durably. Fails as
  /// recheck() does.
  Status commit();
  /// The same with another name in the folder than that it was created for.
  Status commitAs(const std::string &path);
  /// Whether the file has its name: it may, where commit() failed to make that
  /// last.
  bool isCommitted() const { return committed_; }

private:
  explicit OutputFile(OutputTarget target) : target_(std::move(target)) {}
  Status openStream();
  Status openTemporary();
  Status replace(const std::string &path);
  Status failure(const char *what) const;

  OutputTarget target_;
  std::string path_; ///< As given, for messages.
  OutputPlace place_;
  std::string temporary_; ///< "" for a stream.
  RemovedOnSignal removed_;
  int fd_ = -1;
  bool committed_ = false;
};

/// Makes renames in a folder last: they are on the disk when it is.
Status flushFolder(const std::string &folder);

/// Creates an output, writes all of it and commits it.
Status writeOutput(OutputTarget target, std::string_view bytes,
                   OutputFile::Content content = OutputFile::Content::Text);

} // namespace moert

#endif // MOE_RUNTIME_BASE_OUTPUTFILE_H
