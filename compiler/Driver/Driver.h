//===- Driver.h - Compiles a GGUF file to a plan ----------------*- C++ -*-===//

#ifndef MOE_COMPILER_DRIVER_DRIVER_H
#define MOE_COMPILER_DRIVER_DRIVER_H

#include "compiler/Driver/Forecast.h"
#include "compiler/Driver/LadderCompilation.h"
#include "compiler/Import/GgufFile.h"
#include "runtime/base/InputTexts.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace moec {

/// The kind of output.
enum class Emit {
  Moe,      ///< The model graph as imported.
  Placed,   ///< The graph with devices, kernels and reasons.
  Plan,     ///< The plan dialect.
  Fb,       ///< The plan file, and plan.weights if weights were packed.
  Rules,    ///< The placement as editable rules of --place.
  Forecast, ///< No file; the report has the plan's memory and speed.
};

/// A request to compile. It has one member for every row of Options.def, which
/// documents its meaning and its values.
struct CompileRequest {
  std::string model;
#define MOE_OPTION(field, Type, fallback, ...) Type field = fallback;
#include "compiler/Options/Options.def"
  /// The inputs of this request, each of which is read only once.
  std::shared_ptr<moert::InputTexts> texts =
      std::make_shared<moert::InputTexts>();
  /// Called during slow steps (packing weights) with the step's name, and the
  /// bytes done so far and in total. Returning false cancels. May be empty.
  std::function<bool(const char *what, uint64_t done, uint64_t total)> progress;
  /// Called with what is being measured on this machine or compiled for a GPU,
  /// and with "" at the end. May be empty.
  std::function<void(const std::string &)> measuring;
};

struct CompileReport {
  std::string output;               ///< The requested or default path.
  std::string text;                 ///< Output for "-", or "".
  std::vector<uint8_t> plan;        ///< The plan file, also for a stream.
  std::vector<std::string> notes;   ///< Messages for the user.
  std::vector<std::string> remarks; ///< What passes say, combined over layers.
  std::string packed;               ///< Path of the packed weights, or "".
  uint64_t packedBytes = 0;         ///< Size of the packed weights in bytes.
  std::optional<Forecast> forecast; ///< Present for Emit::Forecast.
};

/// Compiles a model. Fails with InvalidFile for the model, Usage for options
/// and targets, DoesNotFit for budgets, Unsupported for architectures, formats,
/// missing kernels, GPU kernels without NVRTC and a vocabulary that the runtime
/// cannot use, or Io. Everything that moert would refuse to run is detected
/// before weights are packed. A message about a rung of a ladder names the
/// rung.
moert::StatusOr<CompileReport> compileModel(const CompileRequest &request);

/// Returns the notes of compileModel for `model` that do not depend on the
/// machine, or the failure of importing it or its vocabulary.
moert::StatusOr<std::vector<std::string>> checkModel(const GgufModel &model);

/// Returns a plan file as text of the plan dialect. For a ladder, `rung`
/// selects one rung; 0 means all.
moert::StatusOr<std::string> inspectPlan(const std::string &path,
                                         uint32_t rung = 0);

/// Converts text of the plan dialect to a plan file; the inverse of
/// inspectPlan.
moert::Status assemblePlan(const std::string &textPath,
                           const std::string &output, bool force = false);

} // namespace moec

#endif // MOE_COMPILER_DRIVER_DRIVER_H
