//===- Compilation.h - One plan of a command's ------------------*- C++ -*-===//
//
// What compileModel (Driver.h) and compileLadder (Ladder.h) are made of.
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

/// What compilations of one command share.
struct Given {
  const GgufModel &model;
  TargetDesc target;
  const moert::OutputRule &rule; ///< What outputs may replace.
};

/// What made a pass fail, and the context that it was asked for.
struct PassFailure {
  Failure failure;
  AskedContext context;
};

/// What passes make of a model.
struct Lowered {
  CompileReport report;
  mlir::OwningOpRef<mlir::ModuleOp> module = {};
  /// That is to be written; null where the request was for less.
  mlir::plan::ProgramOp program = {};
};

void loadDialects(mlir::MLIRContext &context);

/// As IR.
std::string textOf(mlir::ModuleOp module);

/// The program of a module, or those of a ladder's rungs.
moert::StatusOr<std::vector<mlir::plan::ProgramOp>>
programsOf(mlir::ModuleOp module);

std::vector<std::string> notesOf(mlir::ModuleOp module);
std::vector<std::string> notesOf(mlir::plan::ProgramOp program);

/// Where a request's result goes.
std::string outputOf(const CompileRequest &request);

/// What is written there.
moert::OutputKind outputKindOf(Emit emit);

moert::Status makeFolder(const std::string &path);

/// Does with the vocabulary what moert will do, before hours of packing. A file
/// without one passes.
moert::Status checkTokenizer(const CompileRequest &request,
                             const GgufModel &model, mlir::ModuleOp module);

/// Lowers an opened model for a known machine; `failed` is set where a pass
/// could not do what was asked for.
moert::StatusOr<Lowered> lower(mlir::MLIRContext &context,
                               const CompileRequest &request,
                               const Given &given,
                               std::optional<PassFailure> &failed);

/// Decides which weights of the module's programs are written, and checks that
/// there is room for them and that they may be where writePair() writes them:
/// before kernels are compiled, which takes long too.
moert::Status packWeights(mlir::ModuleOp module, const CompileRequest &request,
                          const Given &given);

/// Compiles what GPUs of the plan run.
moert::Status compileKernels(mlir::plan::ProgramOp program,
                             const CompileRequest &request);

/// Writes report.output and the weights that its programs, those of `module`,
/// need.
moert::Status writePair(mlir::ModuleOp module, const CompileRequest &request,
                        const Given &given, CompileReport &report);

/// Compiles and writes one plan.
moert::StatusOr<CompileReport> compileFor(const CompileRequest &request,
                                          const Given &given,
                                          std::optional<PassFailure> &failed);

/// Whether a request, which may be one of many, or all rungs of its ladder have
/// a plan. Nothing is written.
bool compiles(CompileRequest request, const Given &given);

} // namespace moec

#endif // MOE_COMPILER_DRIVER_COMPILATION_H
