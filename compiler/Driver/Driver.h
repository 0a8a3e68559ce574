//===- Driver.h - From a GGUF file to a plan --------------------*- C++ -*-===//

#ifndef MOE_COMPILER_DRIVER_DRIVER_H
#define MOE_COMPILER_DRIVER_DRIVER_H

#include "compiler/Driver/Forecast.h"
#include "compiler/Driver/Ladder.h"
#include "compiler/Import/GgufFile.h"
#include "runtime/base/InputTexts.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace moec {

/// What to write.
enum class Emit {
  Moe,      ///< The model graph as imported.
  Placed,   ///< After the passes on the graph: devices, kernels, reasons.
  Plan,     ///< The plan dialect.
  Fb,       ///< The plan file, and plan.weights where weights were packed.
  Rules,    ///< The placement as rules of --place, to edit.
  Forecast, ///< Nothing: what the plan would need and do is in the report.
};

/// What to compile and how: a member for every row of Options.def, which says
/// what it means and what it may hold.
struct CompileRequest {
  std::string model;
#define MOE_OPTION(field, Type, fallback, ...) Type field = fallback;
#include "compiler/Options/Options.def"
  /// What was read for this request and is read for it, each input once.
  std::shared_ptr<moert::InputTexts> texts =
      std::make_shared<moert::InputTexts>();
  /// Called with what takes long (packing weights), and the bytes of it done so
  /// far and in all; false gives up. May be empty.
  std::function<bool(const char *what, uint64_t done, uint64_t total)> progress;
  /// Called with what is measured of this machine or compiled for a GPU, where
  /// it has to be, and with "" at the end. May be empty.
  std::function<void(const std::string &)> measuring;
};

struct CompileReport {
  std::string output;               ///< As asked, or the default.
  std::string text;                 ///< What "-" asked for, or "".
  std::vector<uint8_t> plan;        ///< As written, also to a stream.
  std::vector<std::string> notes;   ///< What a user should see.
  std::vector<std::string> remarks; ///< Of passes; those of layers as one.
  std::string packed;               ///< The weights file, or "".
  uint64_t packedBytes = 0;         ///< Its size.
  std::optional<Forecast> forecast; ///< Of Emit::Forecast.
};

/// Compiles as asked. Fails with the codes of moert::StatusCode: InvalidFile
/// for the model, Usage for options and targets, DoesNotFit for budgets,
/// Unsupported for architectures, formats, missing kernels, a GPU's kernels
/// without NVRTC and a vocabulary that the runtime cannot use, Io. What moert
/// would refuse to run is found before weights are packed; the message about a
/// rung of a ladder names it.
moert::StatusOr<CompileReport> compileModel(const CompileRequest &request);

/// What compileModel would say of `model` whatever the machine: notes, or the
/// failure that importing it or its vocabulary ends with.
moert::StatusOr<std::vector<std::string>> checkModel(const GgufModel &model);

/// A plan file as text of the plan dialect; of a ladder all rungs, or that with
/// this number.
moert::StatusOr<std::string> inspectPlan(const std::string &path,
                                         uint32_t rung = 0);

/// Text of the plan dialect to a plan file; the inverse of inspectPlan.
moert::Status assemblePlan(const std::string &textPath,
                           const std::string &output, bool force = false);

} // namespace moec

#endif // MOE_COMPILER_DRIVER_DRIVER_H
