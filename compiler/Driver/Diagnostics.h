//===- Diagnostics.h - Turns MLIR's errors into a Status --------*- C++ -*-===//

#ifndef MOE_COMPILER_DRIVER_DIAGNOSTICS_H
#define MOE_COMPILER_DRIVER_DIAGNOSTICS_H

#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "runtime/plan/OutputRule.h"

#include <string>
#include <vector>

namespace moec {

/// Why a compilation failed, as a user message.
struct Failure {
  moert::StatusCode code;
  /// What is wrong. Lines after the first one are a table.
  std::string cause;
  /// What to do about it, to complete a sentence; may be empty.
  std::string fix;

  /// Returns "cause; fix", followed by the cause's table.
  moert::Status status() const;
};

/// Combines texts that only differ in the layer of the op that they begin with
/// ("blk.3.ffn_experts: ...") into one that names all these layers, in the
/// order of the first of each. Also removes other duplicates.
std::vector<std::string> collapseLayers(const std::vector<std::string> &texts);

/// An object that collects the diagnostics of the context's passes and
/// verifiers while it lives. The context must not print operations with its
/// diagnostics, because users read them.
class DiagnosticLog {
public:
  explicit DiagnosticLog(mlir::MLIRContext *context);

  /// Returns why `pass` failed, from the collected errors. An error with a note
  /// is the user's to fix, and the note says how, if the pass is one that
  /// handles user requests. Any other error is a bug of this compiler.
  Failure failureOf(const std::string &pass) const;

  /// Returns the first error with its location, for text that a developer
  /// wrote.
  moert::Status parseFailure(const std::string &path) const;

  /// Remarks and warnings, in order.
  const std::vector<std::string> &remarks() const { return remarks_; }

private:
  struct Error {
    std::string text, fix, place;
  };
  std::vector<Error> errors_;
  std::vector<std::string> remarks_;
  mlir::ScopedDiagnosticHandler handler_;
};

/// Records which pass failed, because that determines the exit code: a model
/// that does not fit has another code than a missing kernel. Optionally writes
/// the module after every pass to `dumpFolder` as NN-<pass>.mlir.
class PassLog : public mlir::PassInstrumentation {
public:
  /// `state` outlives the pass manager that owns the instrumentation.
  struct State {
    const moert::OutputRule &rule; ///< Which files dumps may replace.
    std::string failedPass;
    std::string dumpFolder; ///< An existing folder, or "" for no dumps.
    unsigned passes = 0;
    moert::Status dumpStatus;
  };
  explicit PassLog(State &state) : state_(state) {}

  void runAfterPass(mlir::Pass *pass, mlir::Operation *op) override;
  void runAfterPassFailed(mlir::Pass *pass, mlir::Operation *op) override;

private:
  State &state_;
};

} // namespace moec

#endif // MOE_COMPILER_DRIVER_DIAGNOSTICS_H
