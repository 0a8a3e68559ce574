#include "compiler/Import/GgufTensorTable.h"

#include "compiler/Import/NameIndex.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace moert;

namespace moec {

namespace {

/// An entry with a name of one byte, one dimension, type and offset.
constexpr uint64_t minTensorEntryBytes = (8 + 1) + 4 + 8 + 4 + 8;

constexpr uint64_t maxNameBytes = 65535;

/// ggml type numbers in some files of 2023 and 2024 that no current reader
/// supports.
struct RemovedFormat {
  uint32_t number;
  std::string_view name;
};
constexpr RemovedFormat removedFormats[] = {
    {4, "Q4_2"},        {5, "Q4_3"},        {31, "Q4_0_4_4"},
    {32, "Q4_0_4_8"},   {33, "Q4_0_8_8"},   {36, "IQ4_NL_4_4"},
    {37, "IQ4_NL_4_8"}, {38, "IQ4_NL_8_8"},
};

/// Offsets of an entry's fields, for checks after the whole table has been
/// read.
struct EntryPlace {
  uint64_t entry;
  uint64_t offsetField;
};

Status unknownFormat(const ByteCursor &cursor, uint64_t at, uint32_t number) {
  for (const RemovedFormat &removed : removedFormats)
    if (removed.number == number)
      return cursor.error(
          at, fmt::format("type {} ({}) was removed from the format; convert "
                          "or quantise the model again",
                          number, removed.name));
  return cursor.error(at, fmt::format("unknown tensor type {}; the file is "
                                      "damaged or newer than this reader",
                                      number));
}

Status readShape(ByteCursor &cursor, GgufTensor &tensor) {
  uint64_t start = cursor.offset();
  MOE_ASSIGN_OR_RETURN(tensor.rank,
                       cursor.read<uint32_t>("the number of dimensions"));
  if (tensor.rank < 1 || tensor.rank > tensor.shape.size())
    return cursor.error(start,
                        fmt::format("has {} dimensions, expected 1 to {}",
                                    tensor.rank, tensor.shape.size()));
  tensor.shape.fill(1);
  for (unsigned i = 0; i < tensor.rank; ++i) {
    start = cursor.offset();
    MOE_ASSIGN_OR_RETURN(tensor.shape[i], cursor.read<uint64_t>("a dimension"));
    if (tensor.shape[i] == 0)
      return cursor.error(
          start, fmt::format("dimension {} is 0, expected at least 1", i));
  }
  return Status::ok();
}

/// Reads the type and derives the size in bytes from it and the shape.
Status readFormat(ByteCursor &cursor, GgufTensor &tensor, uint64_t entry) {
  uint64_t start = cursor.offset();
  MOE_ASSIGN_OR_RETURN(uint32_t number, cursor.read<uint32_t>("the type"));
  std::optional<moek::Format> format = moek::formatFromNumber(number);
  if (!format)
    return unknownFormat(cursor, start, number);
  tensor.format = *format;

  moek::FormatInfo info = moek::formatInfo(*format);
  const auto &shape = tensor.shape;
  if (shape[0] % info.blockElements != 0)
    return cursor.error(
        entry, fmt::format("rows of {} elements are not a multiple of the "
                           "block of {} that {} needs",
                           shape[0], info.blockElements, info.name));
  Checked elements = Checked(shape[0]) * Checked(shape[1]) * Checked(shape[2]) *
                     Checked(shape[3]);
  Checked bytes = Checked(shape[0] / info.blockElements) *
                  Checked(info.blockBytes) * Checked(shape[1]) *
                  Checked(shape[2]) * Checked(shape[3]);
  if (!elements.valid() || elements.value() > uint64_t(INT64_MAX) ||
      !bytes.valid())
    return cursor.error(
        entry,
        fmt::format("the shape [{}] as {} overflows 64 bits",
                    fmt::join(shape.begin(), shape.begin() + tensor.rank, ", "),
                    info.name));
  tensor.bytes = bytes.value();
  return Status::ok();
}

/// Converts the tensor's offset from the start of the data to an offset in the
/// file.
Status placeTensor(ByteCursor &cursor, GgufTensor &tensor, uint64_t offsetField,
                   uint64_t dataOffset, uint64_t alignment,
                   uint64_t fileBytes) {
  cursor.setSubject("tensor", tensor.name);
  if (tensor.offset % alignment != 0)
    return cursor.error(offsetField,
                        fmt::format("offset {} is not a multiple of the "
                                    "alignment {}",
                                    tensor.offset, alignment));
  Checked begin = Checked(dataOffset) + Checked(tensor.offset);
  Checked end = begin + Checked(tensor.bytes);
  if (!end.valid())
    return cursor.error(offsetField,
                        fmt::format("offset {} plus {} bytes overflows 64 bits",
                                    tensor.offset, tensor.bytes));
  if (end.value() > fileBytes)
    return cursor.error(
        offsetField,
        fmt::format("needs bytes {} to {}, but the file has {}; it is "
                    "truncated (an incomplete download, or one piece of a "
                    "model that must be joined first)",
                    begin.value(), end.value(), fileBytes));
  tensor.offset = begin.value();
  return Status::ok();
}

Status checkOverlap(ByteCursor &cursor, const GgufTensorTable &table,
                    const std::vector<EntryPlace> &places) {
  std::vector<size_t> order(table.tensors.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(table.tensors[a].offset, a) <
           std::pair(table.tensors[b].offset, b);
  });
  for (size_t i = 1; i < order.size(); ++i) {
    const GgufTensor &before = table.tensors[order[i - 1]];
    const GgufTensor &after = table.tensors[order[i]];
    if (before.offset + before.bytes <= after.offset)
      continue;
    cursor.setSubject("tensor", after.name);
    return cursor.error(
        places[order[i]].offsetField,
        fmt::format("begins at byte {}, inside tensor {} (bytes {} to {})",
                    after.offset, quoted(before.name), before.offset,
                    before.offset + before.bytes));
  }
  return Status::ok();
}

Status checkDuplicates(ByteCursor &cursor, const GgufTensorTable &table,
                       const std::vector<EntryPlace> &places) {
  auto nameOf = [&](size_t i) { return table.tensors[i].name; };
  NameIndex index;
  index.build(table.tensors.size(), nameOf);
  auto twice = index.findDuplicate(nameOf);
  if (!twice)
    return Status::ok();
  cursor.setSubject("tensor", nameOf(twice->first));
  return cursor.error(places[twice->second].entry,
                      fmt::format("appears twice, first at byte {}",
                                  places[twice->first].entry));
}

} // namespace

StatusOr<GgufTensorTable>
readGgufTensorTable(ByteCursor &cursor, uint64_t count, uint64_t countOffset,
                    uint64_t alignment, uint64_t fileBytes) {
  cursor.setSubject("", "");
  MOE_RETURN_IF_ERROR(cursor.checkCount(count, minTensorEntryBytes, countOffset,
                                        "the number of tensors"));
  GgufTensorTable table;
  std::vector<EntryPlace> places;
  for (uint64_t i = 0; i < count; ++i) {
    cursor.setSubject("", "");
    GgufTensor tensor = {};
    EntryPlace place = {cursor.offset(), 0};
    MOE_ASSIGN_OR_RETURN(tensor.name, cursor.readString("a tensor name"));
    if (tensor.name.empty() || tensor.name.size() > maxNameBytes)
      return cursor.error(place.entry,
                          fmt::format("the name of tensor {} of {} has {} "
                                      "bytes, expected 1 to {}",
                                      i + 1, count, tensor.name.size(),
                                      maxNameBytes));
    cursor.setSubject("tensor", tensor.name);
    MOE_RETURN_IF_ERROR(readShape(cursor, tensor));
    MOE_RETURN_IF_ERROR(readFormat(cursor, tensor, place.entry));
    place.offsetField = cursor.offset();
    MOE_ASSIGN_OR_RETURN(tensor.offset, cursor.read<uint64_t>("the offset"));
    table.tensors.push_back(tensor);
    places.push_back(place);
  }

  // This cannot overflow: the header has at most maxHeaderBytes, and the
  // alignment 32 bits.
  table.dataOffset = alignUp(cursor.offset(), alignment);
  for (uint64_t i = 0; i < count; ++i)
    MOE_RETURN_IF_ERROR(placeTensor(cursor, table.tensors[i],
                                    places[i].offsetField, table.dataOffset,
                                    alignment, fileBytes));
  MOE_RETURN_IF_ERROR(checkDuplicates(cursor, table, places));
  MOE_RETURN_IF_ERROR(checkOverlap(cursor, table, places));
  cursor.setSubject("", "");
  return table;
}

} // namespace moec
