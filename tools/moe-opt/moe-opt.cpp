//===- moe-opt.cpp - Runs passes on the dialects, for tests ---------------===//

#include "compiler/Driver/PlanText.h"
#include "dialects/moe/Moe.h"
#include "dialects/plan/Plan.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "passes/moe/pipeline/Pipelines.h"
#include "passes/plan/PlanPasses.h"
#include "runtime/base/OutputFile.h"
#include "runtime/base/ReadInput.h"
#include "runtime/plan/OutputRule.h"
#include "tools/common/LlvmFailure.h"

using moert::Status;

namespace {
/// Does the work of mlir::MlirOptMain, with this project's rules for inputs and
/// outputs: length and nesting of the text are checked before MLIR's parser
/// sees it, and the output replaces only IR text. Passes report their own
/// errors; `failed` only says that there were some.
Status run(const std::string &input, const std::string &output,
           mlir::DialectRegistry &registry, bool &failed) {
  moert::OutputRule rule(/*force=*/false, /*forceWord=*/"");
  rule.addInput("the input", input);
  MOE_ASSIGN_OR_RETURN(moert::OutputTarget target,
                       rule.target(output, moert::OutputKind::IrText));
  MOE_ASSIGN_OR_RETURN(std::string text,
                       moert::readInput(input, moert::kMostTextBytes));
  // The beginning of bytecode that moe-opt has written.
  if (!text.starts_with("ML\xefR"))
    MOE_RETURN_IF_ERROR(moec::checkPlanText(moert::inputName(input), text));
  std::string result;
  llvm::raw_string_ostream stream(result);
  // Passes also print to standard output, so results must go there in order,
  // and an error must be reported only once.
  failed = mlir::failed(mlir::MlirOptMain(
      output == "-" ? static_cast<llvm::raw_ostream &>(llvm::outs()) : stream,
      llvm::MemoryBuffer::getMemBufferCopy(text, input), registry,
      mlir::MlirOptMainConfig::createFromCLOptions()));
  if (failed || output == "-")
    return Status::ok();
  return moert::writeOutput(std::move(target), result);
}
} // namespace

int main(int argc, char **argv) {
  if (Status streams = moetool::claimStandardStreams(); !streams.isOk())
    return moetool::finish(streams);
  moetool::catchLlvmFailures();
  mlir::DialectRegistry registry;
  registry.insert<mlir::func::FuncDialect, mlir::moe::MoeDialect,
                  mlir::plan::PlanDialect>();
  mlir::registerTransformsPasses();
  mlir::moe::registerPassesAndPipelines();
  mlir::plan::registerPlanPassesAndPipeline();
  auto [input, output] = mlir::registerAndParseCLIOptions(
      argc, argv, "moe optimizer driver\n", registry);
  if (mlir::MlirOptMainConfig::createFromCLOptions().shouldShowDialects())
    return mlir::asMainReturnCode(
        mlir::MlirOptMain(argc, argv, input, output, registry));
  bool failed = false;
  Status status = run(input, output, registry, failed);
  if (status.isOk() && failed)
    return 1;
  return moetool::finish(std::move(status));
}
