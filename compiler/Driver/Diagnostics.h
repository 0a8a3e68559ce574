//===- Diagnostics.h - MLIR's errors as a Status ----------------*- C++ -*-===//

#ifndef MOE_COMPILER_DRIVER_DIAGNOSTICS_H
#define MOE_COMPILER_DRIVER_DIAGNOSTICS_H

#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "runtime/base/InputSet.h"

#include <string>
#include <vector>

namespace moec {

/// While alive, collects what the context's passes and verifiers report.
class DiagnosticLog {
public:
  explicit DiagnosticLog(mlir::MLIRContext *context);

  /// The collected errors, first one first, as one failure.
  moert::Status failure(moert::StatusCode code) const;

  /// Remarks and warnings, each once, in order.
  const std::vector<std::string> &remarks() const { return remarks_; }

private:
  std::vector<std::string> errors_, remarks_;
  mlir::ScopedDiagnosticHandler handler_;
};

/// Notes which pass failed, because that decides the exit code: a budget that
/// cannot hold is another failure than a missing kernel. Optionally writes the
/// module after every pass to `dumpFolder` as NN-<pass>.mlir.
class PassLog : public mlir::PassInstrumentation {
public:
  /// `state` outlives the pass manager that owns the instrumentation.
  struct State {
    const moert::InputSet &inputs; ///< Not to be written to.
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

/// What a failure of this pass means to a user.
moert::StatusCode failureOfPass(const std::string &pass);

} // namespace moec

#endif // MOE_COMPILER_DRIVER_DIAGNOSTICS_H
