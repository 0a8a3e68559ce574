#include "compiler/Import/GgufPart.h"

#include "compiler/Import/FileKind.h"
#include "compiler/Import/GgufTypes.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <fmt/format.h>

using namespace moert;

namespace moec {

namespace {

StatusOr<uint32_t> readVersion(ByteCursor &cursor) {
  uint64_t start = cursor.offset();
  MOE_ASSIGN_OR_RETURN(uint32_t version, cursor.read<uint32_t>("the version"));
  if (version == 2 || version == 3)
    return version;
  if (version != 0 && (version & 0xffff) == 0)
    return cursor.error(start,
                        fmt::format("version {} is stored big-endian; convert "
                                    "the model again for little-endian",
                                    __builtin_bswap32(version)));
  if (version == 1)
    return cursor.error(start, "GGUF version 1 is no longer read, expected 2 "
                               "or 3; convert the model again");
  return cursor.error(
      start, fmt::format("GGUF version is {}, expected 2 or 3", version));
}

} // namespace

StatusOr<GgufPart> openGgufPart(const std::string &path) {
  MOE_RETURN_IF_ERROR(checkModelPath(path));
  MOE_ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(path));
  std::span<const uint8_t> bytes = file.bytes();
  MOE_RETURN_IF_ERROR(checkGgufMagic(path, bytes));

  ByteCursor cursor(path, bytes);
  MOE_RETURN_IF_ERROR(cursor.skip(4, "the magic"));
  MOE_ASSIGN_OR_RETURN(uint32_t version, readVersion(cursor));
  uint64_t tensorCountOffset = cursor.offset();
  MOE_ASSIGN_OR_RETURN(uint64_t tensorCount,
                       cursor.read<uint64_t>("the number of tensors"));
  uint64_t keyCountOffset = cursor.offset();
  MOE_ASSIGN_OR_RETURN(uint64_t keyCount,
                       cursor.read<uint64_t>("the number of metadata keys"));
  MOE_ASSIGN_OR_RETURN(GgufMetadata metadata,
                       readGgufMetadata(cursor, keyCount, keyCountOffset));
  MOE_ASSIGN_OR_RETURN(uint64_t alignment, ggufAlignment(cursor, metadata));
  MOE_ASSIGN_OR_RETURN(GgufTensorTable table,
                       readGgufTensorTable(cursor, tensorCount,
                                           tensorCountOffset, alignment,
                                           bytes.size()));
  uint64_t headerBytes = std::min<uint64_t>(table.dataOffset, bytes.size());
  return GgufPart{std::move(file), version, headerBytes, std::move(metadata),
                  std::move(table.tensors)};
}

Status ggufTypeError(const std::string &path, std::string_view key,
                     const GgufValue &value, std::string_view expected) {
  std::string found(ggufTypeInfo(value.type).name);
  if (const auto *array = std::get_if<GgufArray>(&value.data))
    found = fmt::format("array of {}", ggufTypeInfo(array->elementType).name);
  return Status(StatusCode::InvalidFile,
                fmt::format("{}: byte {}: key {}: expected {}, found {}", path,
                            value.fileOffset, quoted(key), expected, found));
}

StatusOr<std::optional<uint64_t>> getUint(const GgufMetadata &metadata,
                                          const std::string &path,
                                          std::string_view key) {
  const GgufValue *value = metadata.find(key);
  if (!value)
    return std::optional<uint64_t>();
  if (const auto *number = std::get_if<uint64_t>(&value->data))
    return std::optional(*number);
  const auto *number = std::get_if<int64_t>(&value->data);
  if (!number)
    return ggufTypeError(path, key, *value, "an unsigned integer");
  if (*number < 0)
    return Status(StatusCode::InvalidFile,
                  fmt::format("{}: byte {}: key {}: expected a value of at "
                              "least 0, found {}",
                              path, value->fileOffset, quoted(key), *number));
  return std::optional(static_cast<uint64_t>(*number));
}

} // namespace moec
