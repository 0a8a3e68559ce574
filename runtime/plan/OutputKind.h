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

/// "a plan", as messages have it.
std::string_view nameOf(OutputKind kind);

/// Whether such an output may go to a pipe or a device.
bool mayStream(OutputKind kind);

/// First lines that make two kinds of plain text recognisable.
inline constexpr std::string_view kRulesHeader =
    "# Placement rules: moec compile --place @FILE reads them.\n";
inline constexpr std::string_view kRemarksHeader =
    "# What the passes of moec compile remarked:\n";
/// Marks a page of moec explain, within its first 4 KiB.
inline constexpr std::string_view kPageMark =
    "<meta name=\"generator\" content=\"moec explain\">";

/// What a regular file is by its first bytes.
struct ExistingFile {
  bool isEmpty = false;
  std::optional<OutputKind> kind; ///< None: nothing that is known here.
};

/// Fails with Io where the file cannot be read.
StatusOr<ExistingFile> existingFileAt(const std::string &path);

/// Likewise for a file that begins with `start`.
std::optional<OutputKind> kindOf(std::string_view start);

} // namespace moert

#endif // MOE_RUNTIME_PLAN_OUTPUTKIND_H
