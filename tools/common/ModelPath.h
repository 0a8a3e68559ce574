//===- ModelPath.h - The model in a folder ----------------------*- C++ -*-===//

#ifndef MOE_TOOLS_COMMON_MODELPATH_H
#define MOE_TOOLS_COMMON_MODELPATH_H

#include "runtime/base/OptionInfo.h"
#include "runtime/base/Status.h"
#include "tools/common/CliFwd.h"

#include <string>

namespace moetool {

/// Returns `path`, or of a folder that holds one model in GGUF format, whole or
/// in parts, the path of that model (its first part). Files of projectors for
/// images (mmproj*) do not count. Fails with Usage for a folder with several
/// models, which it names, or with none.
moert::StatusOr<std::string> modelPathAt(const std::string &path);

/// Adds an option or argument for a model or plan: a file, or the folder of a
/// model.
CLI::Option *addModelPath(CLI::App &command, const moert::OptionInfo &info,
                          std::string &path);

} // namespace moetool

#endif // MOE_TOOLS_COMMON_MODELPATH_H
