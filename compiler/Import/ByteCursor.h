//===- ByteCursor.h - Bounds-checked reading of a header --------*- C++ -*-===//
//
// Walks the header of one file. Every read is checked against the bytes that
// remain, and every failure names the file, the byte offset and the subject
// (the key or tensor being read).
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_IMPORT_BYTECURSOR_H
#define MOE_COMPILER_IMPORT_BYTECURSOR_H

#include "runtime/base/CheckedMath.h"
#include "runtime/base/Status.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace moec {

static_assert(std::endian::native == std::endian::little,
              "GGUF fields are read as little-endian host integers");

/// Most bytes of a header. Real headers, including vocabularies, have a few
/// megabytes. The limit bounds the memory that a damaged count can claim in a
/// file of hundreds of gigabytes.
inline constexpr uint64_t maxHeaderBytes = uint64_t(256) << 20;

class ByteCursor {
public:
  /// Borrows both arguments. `file` is the whole file, of which at most
  /// maxHeaderBytes are read.
  ByteCursor(const std::string &path, std::span<const uint8_t> file);

  uint64_t offset() const { return offset_; }
  uint64_t remaining() const { return limit_ - offset_; }

  /// Sets the subject that messages name, such as "key" and its name. An empty
  /// name stands for the whole file.
  void setSubject(std::string_view kind, std::string_view name) {
    subjectKind_ = kind;
    subjectName_ = name;
  }

  /// Reads a value. `what` names the field, such as "the value type".
  template <typename T> moert::StatusOr<T> read(std::string_view what) {
    MOE_RETURN_IF_ERROR(need(sizeof(T), what));
    T value;
    std::memcpy(&value, file_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return value;
  }

  /// Reads the next `width` (1 to 8) bytes as an unsigned integer.
  moert::StatusOr<uint64_t> readUint(unsigned width, std::string_view what);

  /// Reads a 64-bit length and returns a view of that many bytes of the
  /// mapping.
  moert::StatusOr<std::string_view> readString(std::string_view what);

  moert::Status skip(moert::Checked bytes, std::string_view what);

  /// Fails unless `bytes` more can be read.
  moert::Status need(moert::Checked bytes, std::string_view what) const;

  /// Fails unless `count` elements of at least `minBytes` each can follow.
  /// `countOffset` is the offset of the count.
  moert::Status checkCount(uint64_t count, uint64_t minBytes,
                           uint64_t countOffset, std::string_view what) const;

  /// Returns an InvalidFile failure at `offset`.
  moert::Status error(uint64_t offset, std::string_view text) const;

private:
  /// Describes the remaining bytes, to complete a message.
  std::string follow() const;

  const std::string &path_;
  std::span<const uint8_t> file_;
  uint64_t limit_;
  uint64_t offset_ = 0;
  std::string_view subjectKind_;
  std::string_view subjectName_;
};

} // namespace moec

#endif // MOE_COMPILER_IMPORT_BYTECURSOR_H
