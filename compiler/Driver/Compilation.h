//===- Compilation.h - Steps of compiling one plan --------------*- C++ -*-===//
//
// The steps that compileModel (Driver.h) and compileLadder
// (LadderCompilation.h) share.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_COMPILER_DRIVER_COMPILATION_H
#define MOE_COMPILER_DRIVER_COMPILATION_H

#include "compiler/Driver/Driver.h"
#include "compiler/Driver/Remedy.h"
#include "compiler/Machine/Targets/Target.h"
#include "dialects/plan/Plan.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/plan/OutputRule.h"

namespace moec {

/// Inputs shared by all compilations of one command.
struct CompileInputs {
  const GgufModel &model;
  TargetDesc target;
  const moert::OutputRule &rule; ///< Which files the outputs may replace.
};

/// A pass's failure, and the context that was requested.
struct PassFailure {
  Failure failure;
  AskedContext context;
};

/// A model after all passes.
struct Lowered {
  CompileReport report;
  mlir::OwningOpRef<mlir::ModuleOp> module = {};
  /// The program to write; null if the request does not ask for a plan file.
  mlir::plan::ProgramOp program = {};
  /// Tensor rules whose devices attention follows (kFollowedRulesAttr).
  std::vector<std::string> followedRules = {};
};

void loadDialects(mlir::MLIRContext &context);

/// Returns the module as text.
std::string textOf(mlir::ModuleOp module);

/// Returns the program of a module, or one program per rung of a ladder.
moert::StatusOr<std::vector<mlir::plan::ProgramOp>>
programsOf(mlir::ModuleOp module);

std::vector<std::string> notesOf(mlir::ModuleOp module);
std::vector<std::string> notesOf(mlir::plan::ProgramOp program);

/// Returns the path of a request's output.
std::string outputOf(const CompileRequest &request);

/// Returns the kind of file that is written there.
moert::OutputKind outputKindOf(Emit emit);

moert::Status makeFolder(const std::string &path);

/// Checks the vocabulary as moert will, before packing, which can take hours. A
/// file without a vocabulary passes. Adds a note to the module if neither the
/// file nor the request names the pre-tokenizer.
moert::Status checkTokenizer(const CompileRequest &request,
                             const GgufModel &model, mlir::ModuleOp module);

/// Lowers an opened model for a known machine. Sets `failed` if a pass cannot
/// satisfy the request.
moert::StatusOr<Lowered> lower(mlir::MLIRContext &context,
                               const CompileRequest &request,
                               const CompileInputs &given,
                               std::optional<PassFailure> &failed);

/// Decides which weights of the module's programs are written, and checks that
/// they have enough space and a permitted path. Returns what to tell the user
/// about the decision, or "". Called before kernels are compiled, because that
/// takes long too.
moert::StatusOr<std::string> packWeights(mlir::ModuleOp module,
                                         const CompileRequest &request,
                                         const CompileInputs &given);

/// Compiles the plan's GPU kernels.
moert::Status compileKernels(mlir::plan::ProgramOp program,
                             const CompileRequest &request);

/// Writes report.output and the weights that the programs of `module` need.
moert::Status writePair(mlir::ModuleOp module, const CompileRequest &request,
                        const CompileInputs &given, CompileReport &report);

/// Compiles and writes one plan.
moert::StatusOr<CompileReport> compileFor(const CompileRequest &request,
                                          const CompileInputs &given,
                                          std::optional<PassFailure> &failed);

/// Returns the context that a model was trained for, times the factor of
/// --rope-scaling; kDefaultContext if its file does not say.
moert::StatusOr<int64_t> trainedContext(const CompileRequest &request,
                                        const GgufModel &model);

/// Returns the request without what it writes: it fails or does not.
CompileRequest asTrial(CompileRequest request);

/// Returns whether a request, or every rung of its ladder, can be compiled.
/// Writes nothing.
bool compiles(CompileRequest request, const CompileInputs &given);

} // namespace moec

#endif // MOE_COMPILER_DRIVER_COMPILATION_H
