#include "compiler/Import/GgufMetadata.h"

#include "compiler/Import/GgufTypes.h"

#include <fmt/format.h>

using namespace moert;

namespace moec {

namespace {

/// Arrays of arrays are legal but unused by models; a limit keeps a crafted
/// file from exhausting the stack.
constexpr unsigned maxArrayDepth = 4;

/// A key of one byte, a type and a value of one byte.
constexpr uint64_t minKeyEntryBytes = 8 + 1 + 4 + 1;

constexpr uint64_t maxKeyBytes = 65535;

/// Larger vectors grow as their elements are read, so that a wrong count claims
/// no more memory than the elements in the file.
constexpr uint64_t maxReserve = 1 << 16;

int64_t signExtend(uint64_t value, unsigned bytes) {
  unsigned unused = 64 - 8 * bytes;
  return static_cast<int64_t>(value << unused) >> unused;
}

double decodeFloat(uint64_t bits, unsigned bytes) {
  if (bytes == 4)
    return std::bit_cast<float>(static_cast<uint32_t>(bits));
  return std::bit_cast<double>(bits);
}

StatusOr<GgufType> readType(ByteCursor &cursor, std::string_view what) {
  uint64_t start = cursor.offset();
  MOE_ASSIGN_OR_RETURN(uint32_t number, cursor.read<uint32_t>(what));
  std::optional<GgufType> type = ggufTypeFromNumber(number);
  if (!type)
    return cursor.error(start, fmt::format("{} is {}, expected 0 to {}", what,
                                           number, ggufTypes.size() - 1));
  return *type;
}

StatusOr<bool> readBool(ByteCursor &cursor) {
  uint64_t start = cursor.offset();
  MOE_ASSIGN_OR_RETURN(uint8_t byte, cursor.read<uint8_t>("a bool"));
  if (byte > 1)
    return cursor.error(
        start, fmt::format("a bool is {}, expected 0 or 1", unsigned(byte)));
  return byte == 1;
}

/// Reads the element type and count of an array. The count is checked against
/// the remaining bytes, so the caller may allocate for it.
StatusOr<GgufArray> readArrayHead(ByteCursor &cursor) {
  GgufArray array;
  MOE_ASSIGN_OR_RETURN(array.elementType,
                       readType(cursor, "the array's element type"));
  uint64_t countOffset = cursor.offset();
  MOE_ASSIGN_OR_RETURN(array.count,
                       cursor.read<uint64_t>("the array's length"));
  MOE_RETURN_IF_ERROR(cursor.checkCount(array.count,
                                        ggufTypeInfo(array.elementType).bytes,
                                        countOffset, "the array's length"));
  return array;
}

/// Validates an array's elements without storing them.
Status skipElements(ByteCursor &cursor, const GgufArray &array,
                    unsigned depth) {
  const GgufTypeInfo &info = ggufTypeInfo(array.elementType);
  if (info.kind == GgufKind::String) {
    for (uint64_t i = 0; i < array.count; ++i)
      MOE_RETURN_IF_ERROR(cursor.readString("a string in the array").status());
    return Status::ok();
  }
  if (info.kind != GgufKind::Array)
    return cursor.skip(Checked(array.count) * Checked(info.bytes),
                       "the array's elements");
  if (depth >= maxArrayDepth)
    return cursor.error(
        cursor.offset(),
        fmt::format("arrays are nested more than {} deep", maxArrayDepth));
  for (uint64_t i = 0; i < array.count; ++i) {
    MOE_ASSIGN_OR_RETURN(GgufArray inner, readArrayHead(cursor));
    MOE_RETURN_IF_ERROR(skipElements(cursor, inner, depth + 1));
  }
  return Status::ok();
}

Status readIntegers(ByteCursor &cursor, GgufArray &array,
                    const GgufTypeInfo &info) {
  array.integers.reserve(array.count);
  for (uint64_t i = 0; i < array.count; ++i) {
    uint64_t start = cursor.offset();
    MOE_ASSIGN_OR_RETURN(uint64_t value,
                         cursor.readUint(info.bytes, "an array element"));
    if (info.kind == GgufKind::Signed) {
      array.integers.push_back(signExtend(value, info.bytes));
      continue;
    }
    if (value > uint64_t(INT64_MAX))
      return cursor.error(start, fmt::format("element {} is {}, expected at "
                                             "most {}",
                                             i, value, INT64_MAX));
    array.integers.push_back(static_cast<int64_t>(value));
  }
  return Status::ok();
}

StatusOr<GgufArray> readArray(ByteCursor &cursor) {
  MOE_ASSIGN_OR_RETURN(GgufArray array, readArrayHead(cursor));
  const GgufTypeInfo &info = ggufTypeInfo(array.elementType);
  switch (info.kind) {
  case GgufKind::Unsigned:
  case GgufKind::Signed:
    MOE_RETURN_IF_ERROR(readIntegers(cursor, array, info));
    break;
  case GgufKind::Bool:
    array.integers.reserve(array.count);
    for (uint64_t i = 0; i < array.count; ++i) {
      MOE_ASSIGN_OR_RETURN(bool value, readBool(cursor));
      array.integers.push_back(value);
    }
    break;
  case GgufKind::Float:
    array.floats.reserve(array.count);
    for (uint64_t i = 0; i < array.count; ++i) {
      MOE_ASSIGN_OR_RETURN(uint64_t bits,
                           cursor.readUint(info.bytes, "an array element"));
      array.floats.push_back(decodeFloat(bits, info.bytes));
    }
    break;
  case GgufKind::String:
    array.strings.reserve(std::min(array.count, maxReserve));
    for (uint64_t i = 0; i < array.count; ++i) {
      MOE_ASSIGN_OR_RETURN(std::string_view text,
                           cursor.readString("a string in the array"));
      array.strings.push_back(text);
    }
    break;
  case GgufKind::Array:
    MOE_RETURN_IF_ERROR(skipElements(cursor, array, 1));
    break;
  }
  return array;
}

Status readValue(ByteCursor &cursor, GgufValue &value) {
  MOE_ASSIGN_OR_RETURN(value.type, readType(cursor, "the value type"));
  const GgufTypeInfo &info = ggufTypeInfo(value.type);
  switch (info.kind) {
  case GgufKind::Unsigned: {
    MOE_ASSIGN_OR_RETURN(value.data, cursor.readUint(info.bytes, "the value"));
    break;
  }
  case GgufKind::Signed: {
    MOE_ASSIGN_OR_RETURN(uint64_t bits,
                         cursor.readUint(info.bytes, "the value"));
    value.data = signExtend(bits, info.bytes);
    break;
  }
  case GgufKind::Float: {
    MOE_ASSIGN_OR_RETURN(uint64_t bits,
                         cursor.readUint(info.bytes, "the value"));
    value.data = decodeFloat(bits, info.bytes);
    break;
  }
  case GgufKind::Bool: {
    MOE_ASSIGN_OR_RETURN(value.data, readBool(cursor));
    break;
  }
  case GgufKind::String: {
    MOE_ASSIGN_OR_RETURN(value.data, cursor.readString("the string"));
    break;
  }
  case GgufKind::Array: {
    MOE_ASSIGN_OR_RETURN(value.data, readArray(cursor));
    break;
  }
  }
  return Status::ok();
}

} // namespace

const GgufValue *GgufMetadata::find(std::string_view key) const {
  std::optional<size_t> at =
      index.find(key, [&](size_t i) { return entries[i].first; });
  return at ? &entries[*at].second : nullptr;
}

StatusOr<GgufMetadata> readGgufMetadata(ByteCursor &cursor, uint64_t count,
                                        uint64_t countOffset) {
  GgufMetadata metadata;
  MOE_RETURN_IF_ERROR(cursor.checkCount(count, minKeyEntryBytes, countOffset,
                                        "the number of metadata keys"));
  metadata.entries.reserve(std::min(count, maxReserve));
  for (uint64_t i = 0; i < count; ++i) {
    cursor.setSubject("", "");
    GgufValue value;
    value.fileOffset = cursor.offset();
    MOE_ASSIGN_OR_RETURN(std::string_view key,
                         cursor.readString("a metadata key"));
    if (key.empty() || key.size() > maxKeyBytes)
      return cursor.error(value.fileOffset,
                          fmt::format("metadata key {} of {} has {} bytes, "
                                      "expected 1 to {}",
                                      i + 1, count, key.size(), maxKeyBytes));
    cursor.setSubject("key", key);
    MOE_RETURN_IF_ERROR(readValue(cursor, value));
    metadata.entries.emplace_back(key, std::move(value));
  }
  cursor.setSubject("", "");

  auto nameOf = [&](size_t i) { return metadata.entries[i].first; };
  metadata.index.build(metadata.entries.size(), nameOf);
  if (auto twice = metadata.index.findDuplicate(nameOf)) {
    cursor.setSubject("key", nameOf(twice->first));
    return cursor.error(
        metadata.entries[twice->second].second.fileOffset,
        fmt::format("appears twice, first at byte {}",
                    metadata.entries[twice->first].second.fileOffset));
  }
  return metadata;
}

StatusOr<uint64_t> ggufAlignment(ByteCursor &cursor,
                                 const GgufMetadata &metadata) {
  constexpr std::string_view key = "general.alignment";
  const GgufValue *value = metadata.find(key);
  if (!value)
    return uint64_t(32);
  cursor.setSubject("key", key);
  if (value->type != GgufType::U32)
    return cursor.error(value->fileOffset,
                        fmt::format("expected a u32, found a value of type {}",
                                    ggufTypeInfo(value->type).name));
  uint64_t alignment = std::get<uint64_t>(value->data);
  if (alignment % 8 != 0 || !std::has_single_bit(alignment))
    return cursor.error(value->fileOffset,
                        fmt::format("expected a power of two of at least 8, "
                                    "found {}",
                                    alignment));
  cursor.setSubject("", "");
  return alignment;
}

} // namespace moec
