//===- OutputKind.h - Kinds of files that commands write --------*- C++ -*-===//

#ifndef MOE_RUNTIME_PLAN_OUTPUTKIND_H
#define MOE_RUNTIME_PLAN_OUTPUTKIND_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace moert {

enum class OutputKind : uint8_t {
#define MOE_OUTPUT_KIND(kind, name, test, streams) kind,
#include "runtime/plan/OutputKinds.def"
#undef MOE_OUTPUT_KIND
};

/// Returns the name used in messages, such as "a plan".
std::string_view nameOf(OutputKind kind);

/// Returns whether such an output may go to a pipe or a device.
bool mayStream(OutputKind kind);

/// First lines by which two kinds of text files are recognised.
inline constexpr std::string_view kRulesHeader =
    "# Placement rules: moec compile --place @FILE reads them.\n";
inline constexpr std::string_view kRemarksHeader =
    "# What the passes of moec compile remarked:\n";
/// Marks an HTML page of moec explain, within its first 4 KiB.
inline constexpr std::string_view kPageMark =
    "<meta name=\"generator\" content=\"moec explain\">";

/// The kind of an existing regular file, by its first bytes.
struct ExistingFile {
  bool isEmpty = false;
  /// Absent if this version does not know the kind.
  std::optional<OutputKind> kind;
};

/// Returns the kind of the file at `path`. Fails with Io if it cannot be read.
StatusOr<ExistingFile> existingFileAt(const std::string &path);

/// Returns the kind of a file that begins with `start`.
std::optional<OutputKind> kindOf(std::string_view start);

} // namespace moert

#endif // MOE_RUNTIME_PLAN_OUTPUTKIND_H
