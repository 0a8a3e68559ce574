//===- moe-opt.cpp - Runs passes on the dialects, for tests ---------------===//

#include "dialects/moe/Moe.h"
#include "dialects/plan/Plan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "passes/moe/Pipelines.h"
#include "passes/plan/PlanPasses.h"
#include "tools/common/LlvmFailure.h"

int main(int argc, char **argv) {
  if (moert::Status streams = moetool::claimStandardStreams(); !streams.isOk())
    return moetool::finish(streams);
  moetool::catchLlvmFailures();
  mlir::DialectRegistry registry;
  registry.insert<mlir::func::FuncDialect, mlir::moe::MoeDialect,
                  mlir::plan::PlanDialect>();
  mlir::registerTransformsPasses();
  mlir::moe::registerPassesAndPipelines();
  mlir::plan::registerPlanPassesAndPipeline();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "moe optimizer driver\n", registry));
}
