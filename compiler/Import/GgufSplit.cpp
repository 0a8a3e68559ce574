#include "compiler/Import/GgufSplit.h"

#include "runtime/base/Text.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace moert;

namespace moec {

namespace {

constexpr std::string_view numberKey = "split.no";
constexpr std::string_view countKey = "split.count";
constexpr std::string_view tensorsKey = "split.tensors.count";

Status splitError(const std::string &path, std::string_view text) {
  return Status(StatusCode::InvalidFile, fmt::format("{}: {}", path, text));
}

/// Returns the place of a key for a message, with its offset if it is present.
std::string place(const GgufPart &part, std::string_view key) {
  const GgufValue *value = part.metadata.find(key);
  return value ? fmt::format("byte {}: key {}", value->fileOffset, quoted(key))
               : fmt::format("key {}", quoted(key));
}

/// Returns split.count of a part; 1 for a file that is a whole model.
StatusOr<uint64_t> splitCount(const GgufPart &part) {
  MOE_ASSIGN_OR_RETURN(std::optional<uint64_t> count,
                       getUint(part.metadata, part.file.path(), countKey));
  return std::max<uint64_t>(count.value_or(1), 1);
}

/// Checks that a part says that it is part `number` (from 1) of `count`.
Status checkPart(const GgufPart &part, unsigned number, uint64_t count) {
  const std::string &path = part.file.path();
  MOE_ASSIGN_OR_RETURN(uint64_t foundCount, splitCount(part));
  if (foundCount != count)
    return splitError(
        path, fmt::format("{}: expected {} as in the file name, found {}",
                          place(part, countKey), count, foundCount));
  MOE_ASSIGN_OR_RETURN(std::optional<uint64_t> found,
                       getUint(part.metadata, path, numberKey));
  if (!found)
    return splitError(path, fmt::format("key {} is missing in a part of a "
                                        "split model",
                                        quoted(numberKey)));
  if (*found >= count)
    return splitError(path, fmt::format("{}: expected less than {}, found {}",
                                        place(part, numberKey), count, *found));
  if (*found != number - 1)
    return splitError(
        path, fmt::format("{}: expected {}, found {}: the file holds part {} "
                          "but is named part {}; parts were swapped or renamed",
                          place(part, numberKey), number - 1, *found,
                          *found + 1, number));
  return Status::ok();
}

/// Fails with a list of the missing parts, if any.
Status checkPresent(const std::string &path, const SplitName &name) {
  std::vector<std::string> missing;
  for (unsigned i = 1; i <= name.count; ++i) {
    std::error_code error;
    if (!std::filesystem::exists(name.path(i), error))
      missing.push_back(name.path(i));
  }
  if (missing.empty())
    return Status::ok();
  constexpr size_t shown = 4;
  size_t total = missing.size();
  missing.resize(std::min(total, shown));
  return Status(StatusCode::Io,
                fmt::format("{}: {} of the {} parts of this split model are "
                            "missing: {}{}; put all parts in one folder",
                            path, total, name.count, fmt::join(missing, ", "),
                            total > shown ? ", ..." : ""));
}

/// Checks that a key of two parts has the same value, except for keys that
/// describe the file itself.
Status checkSameMetadata(const GgufPart &first, const GgufPart &part) {
  for (const auto &[key, value] : part.metadata.entries) {
    if (key.starts_with("split.") || key == "general.alignment")
      continue;
    const GgufValue *expected = first.metadata.find(key);
    if (!expected ||
        (expected->type == value.type && expected->data == value.data))
      continue;
    return splitError(
        part.file.path(),
        fmt::format("byte {}: key {}: expected the value in {} (byte {}), "
                    "found another; the parts come from different models",
                    value.fileOffset, quoted(key), first.file.path(),
                    expected->fileOffset));
  }
  return Status::ok();
}

Status checkTensorTotal(const std::vector<GgufPart> &parts) {
  size_t total = 0;
  for (const GgufPart &part : parts)
    total += part.tensors.size();
  for (const GgufPart &part : parts) {
    MOE_ASSIGN_OR_RETURN(std::optional<uint64_t> claimed,
                         getUint(part.metadata, part.file.path(), tensorsKey));
    if (claimed && *claimed != total)
      return splitError(part.file.path(),
                        fmt::format("{}: expected {}, the tensors in all {} "
                                    "parts, found {}",
                                    place(part, tensorsKey), total,
                                    parts.size(), *claimed));
  }
  return Status::ok();
}

/// Parses a number without sign, as in the names of parts.
std::optional<unsigned> parseDigits(std::string_view text) {
  unsigned value = 0;
  for (char c : text) {
    if (c < '0' || c > '9')
      return std::nullopt;
    value = value * 10 + static_cast<unsigned>(c - '0');
  }
  return value;
}

} // namespace

std::optional<SplitName> SplitName::parse(std::string_view path) {
  constexpr std::string_view form = "-00001-of-00001.gguf";
  if (path.size() < form.size())
    return std::nullopt;
  std::string_view tail = path.substr(path.size() - form.size());
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" ||
      tail.substr(15) != ".gguf")
    return std::nullopt;
  std::optional<unsigned> number = parseDigits(tail.substr(1, 5));
  std::optional<unsigned> count = parseDigits(tail.substr(10, 5));
  if (!number || !count || *number < 1 || *number > *count)
    return std::nullopt;
  return SplitName{std::string(path.substr(0, path.size() - form.size())),
                   *number, *count};
}

std::string SplitName::path(unsigned number) const {
  return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, number, count);
}

StatusOr<std::vector<GgufPart>> openGgufParts(const std::string &path) {
  MOE_ASSIGN_OR_RETURN(GgufPart named, openGgufPart(path));
  MOE_ASSIGN_OR_RETURN(uint64_t count, splitCount(named));
  std::vector<GgufPart> parts;
  if (count == 1) {
    parts.push_back(std::move(named));
    return parts;
  }

  std::optional<SplitName> name = SplitName::parse(path);
  if (!name)
    return splitError(path,
                      fmt::format("{}: is one of {} parts, expected a file "
                                  "name like NAME-00001-of-{:05}.gguf; rename "
                                  "the parts back",
                                  place(named, countKey), count, count));
  MOE_RETURN_IF_ERROR(checkPart(named, name->number, name->count));
  MOE_RETURN_IF_ERROR(checkPresent(path, *name));
  for (unsigned i = 1; i <= name->count; ++i) {
    if (i == name->number) {
      parts.push_back(std::move(named));
      continue;
    }
    MOE_ASSIGN_OR_RETURN(GgufPart part, openGgufPart(name->path(i)));
    MOE_RETURN_IF_ERROR(checkPart(part, i, name->count));
    parts.push_back(std::move(part));
  }
  for (size_t i = 1; i < parts.size(); ++i)
    MOE_RETURN_IF_ERROR(checkSameMetadata(parts.front(), parts[i]));
  MOE_RETURN_IF_ERROR(checkTensorTotal(parts));
  return parts;
}

} // namespace moec
