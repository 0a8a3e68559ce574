#include "compiler/Import/ByteCursor.h"

#include "runtime/base/Text.h"

#include <algorithm>
#include <fmt/format.h>

using namespace moert;

namespace moec {

ByteCursor::ByteCursor(const std::string &path, std::span<const uint8_t> file)
    : path_(path), file_(file),
      limit_(std::min<uint64_t>(file.size(), maxHeaderBytes)) {}

StatusOr<uint64_t> ByteCursor::readUint(unsigned width, std::string_view what) {
  MOE_RETURN_IF_ERROR(need(width, what));
  uint64_t value = 0;
  std::memcpy(&value, file_.data() + offset_, width);
  offset_ += width;
  return value;
}

StatusOr<std::string_view> ByteCursor::readString(std::string_view what) {
  uint64_t start = offset_;
  MOE_ASSIGN_OR_RETURN(uint64_t length, read<uint64_t>(what));
  if (length > remaining())
    return error(start, fmt::format("{} claims {} bytes, but only {} {}", what,
                                    length, remaining(), follow()));
  std::string_view text(reinterpret_cast<const char *>(file_.data()) + offset_,
                        length);
  offset_ += length;
  return text;
}

std::string ByteCursor::follow() const {
  if (limit_ == file_.size())
    return "follow";
  return fmt::format("may follow in a header of at most {}", maxHeaderBytes);
}

Status ByteCursor::skip(Checked bytes, std::string_view what) {
  MOE_RETURN_IF_ERROR(need(bytes, what));
  offset_ += bytes.value();
  return Status::ok();
}

Status ByteCursor::need(Checked bytes, std::string_view what) const {
  if (bytes.valid() && bytes.value() <= remaining())
    return Status::ok();
  std::string needed = bytes.valid() ? fmt::format("{} bytes", bytes.value())
                                     : "over 2^64 bytes";
  if (limit_ < file_.size())
    return error(offset_,
                 fmt::format("{} needs {}, but the header would then be longer "
                             "than the {} bytes that this reader accepts",
                             what, needed, maxHeaderBytes));
  return error(offset_, fmt::format("the file ends inside {}: expected {}, "
                                    "found {}; it is truncated",
                                    what, needed, remaining()));
}

Status ByteCursor::checkCount(uint64_t count, uint64_t minBytes,
                              uint64_t countOffset,
                              std::string_view what) const {
  if (count <= remaining() / minBytes)
    return Status::ok();
  return error(countOffset,
               fmt::format("{} is {}, but the {} bytes that {} hold at "
                           "most {}",
                           what, count, remaining(), follow(),
                           remaining() / minBytes));
}

Status ByteCursor::error(uint64_t offset, std::string_view text) const {
  std::string subject;
  if (!subjectKind_.empty())
    subject = fmt::format("{} {}: ", subjectKind_, quoted(subjectName_));
  return Status(StatusCode::InvalidFile,
                fmt::format("{}: byte {}: {}{}", path_, offset, subject, text));
}

} // namespace moec
