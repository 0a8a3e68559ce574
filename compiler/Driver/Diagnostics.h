//===- Diagnostics.h - MLIR's errors as a Status ----------------*- C++ -*-===//

#ifndef MOE_COMPILER_DRIVER_DIAGNOSTICS_H
#define MOE_COMPILER_DRIVER_DIAGNOSTICS_H

#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "runtime/plan/OutputRule.h"

#include <string>
#include <vector>

namespace moec {

/// Why a compilation failed, for people.
struct Failure {
  moert::StatusCode code;
  /// What is wrong; lines after the first are a table.
  std::string cause;
  /// What to do about it, as the end of a sentence; "" for nothing.
  std::string fix;

  /// "cause; fix", with the cause's table below.
  moert::Status status() const;
};

/// Texts that differ in nothing but the layer of the op that they begin with
/// ("blk.3.ffn_experts: ...") as one, which names all of the layers, in the
/// order of the first of each. Other equal texts are told once.
std::vector<std::string> collapseLayers(const std::vector<std::string> &texts);

/// While alive, collects what the context's passes and verifiers report. The
/// context must not add operations to its diagnostics: they are for developers.
class DiagnosticLog {
public:
  explicit DiagnosticLog(mlir::MLIRContext *context);

  /// What the collected errors tell of the failed `pass`. An error with a note,
  /// the fix, is the user's to mend if the pass is one that meets what users
  /// ask for; everything else is a bug of this compiler.
  Failure failureOf(const std::string &pass) const;

  /// The first error with its place, for text that a developer wrote.
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

/// Notes which pass failed, because that decides the exit code: a budget that
/// cannot hold is another failure than a missing kernel. Optionally writes the
/// module after every pass to `dumpFolder` as NN-<pass>.mlir.
class PassLog : public mlir::PassInstrumentation {
public:
  /// `state` outlives the pass manager that owns the instrumentation.
  struct State {
    const moert::OutputRule &rule; ///< What dumps may replace.
    std::string failedPass;
    std::string dumpFolder; ///< Empty for no dumps; exists.
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
