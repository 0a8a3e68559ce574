#include "compiler/Driver/Driver.h"

#include "compiler/Driver/Diagnostics.h"
#include "compiler/Import/GgufFile.h"
#include "compiler/Targets/TargetAttr.h"
#include "dialects/moe/Moe.h"
#include "dialects/plan/Plan.h"
#include "models/Model.h"
#include "passes/Pipelines.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"

#include <filesystem>
#include <fmt/format.h>

using moert::Status;
using moert::StatusCode;
using moert::StatusOr;

namespace moec {

namespace {
using mlir::moe::MlaForm;
using mlir::moe::WeightsMode;

constexpr int64_t kDefaultContext = 4096;

void loadDialects(mlir::MLIRContext &context) {
  // Single-threaded: the functions are few, and locking costs more.
  context.disableMultithreading();
  context.loadDialect<mlir::moe::MoeDialect, mlir::plan::PlanDialect,
                      mlir::func::FuncDialect>();
}

/// The pass manager's options from the user's.
void fillOptions(const CompileRequest &request, int64_t context,
                 mlir::moe::CompileOptions &options) {
  options.context = context;
  options.ubatch = std::min(request.ubatch, context);
  options.experts = request.experts;
  options.kvBytes = request.kvType == "f32" ? 4 : 2;
  options.mla = request.mla == "none"       ? MlaForm::None
                : request.mla == "factored" ? MlaForm::Factored
                : request.mla == "folded"   ? MlaForm::Folded
                                            : MlaForm::Auto;
  options.weights = request.weights == "pack"        ? WeightsMode::Pack
                    : request.weights == "reference" ? WeightsMode::Reference
                                                     : WeightsMode::Auto;
}

/// --ctx, checked against the context the model was trained for.
StatusOr<int64_t> contextOf(const CompileRequest &request,
                            mlir::ModuleOp module) {
  auto facts =
      module->getAttrOfType<mlir::DictionaryAttr>(mlir::moe::kModelAttr);
  auto trained = facts ? facts.getAs<mlir::IntegerAttr>("context_length")
                       : mlir::IntegerAttr();
  int64_t most = trained ? trained.getInt() : kDefaultContext;
  if (request.context == 0)
    return std::min(most, kDefaultContext);
  if (request.context > most)
    return Status(StatusCode::Usage,
                  fmt::format("--ctx {}: the model was trained for {} tokens",
                              request.context, most));
  return request.context;
}
} // namespace

} // namespace moec
