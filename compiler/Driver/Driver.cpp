#include "compiler/Driver/Driver.h"

#include "compiler/Driver/CommandLine.h"
#include "compiler/Driver/Compilation.h"
#include "compiler/Driver/PlanText.h"
#include "compiler/Serialize/PlanReader.h"
#include "compiler/Serialize/PlanWriter.h"
#include "mlir/Parser/Parser.h"
#include "models/Model.h"
#include "runtime/Plan.h"
#include "runtime/base/ReadInput.h"
#include "runtime/base/ShellCommand.h"

using moert::Status;
using moert::StatusOr;

namespace moec {

namespace {
/// What must not be written to.
moert::InputSet inputsOf(const CompileRequest &request,
                         const GgufModel &model) {
  moert::InputSet inputs;
  for (const std::string &path : model.paths())
    inputs.add("the model", path);
  if (!request.targetFile.empty())
    inputs.add("the target file", request.targetFile);
  if (!request.routerProfile.empty())
    inputs.add("the router profile", request.routerProfile);
  return inputs;
}

StatusOr<TargetDesc> wholeTargetOf(const CompileRequest &request) {
  if (!request.targetFile.empty())
    return loadTargetFile(request.targetFile);
  StatusOr<TargetDesc> target =
      resolveTarget(request.target, request.measuring);
  if (request.measuring)
    request.measuring("");
  return target;
}

StatusOr<TargetDesc> targetOf(const CompileRequest &request) {
  MOE_ASSIGN_OR_RETURN(TargetDesc target, wholeTargetOf(request));
  if (!request.gpuArchs.empty() &&
      llvm::none_of(target.devices, [](const DeviceDesc &device) {
        return device.kind == DeviceKind::Cuda;
      }))
    return moert::Status(
        moert::StatusCode::Usage,
        "target " + target.name +
            " has no GPU that kernels could be compiled for; leave "
            "--gpu-arch out");
  if (request.vramLimit)
    MOE_RETURN_IF_ERROR(
        limitMemory(target, DeviceKind::Cuda, uint64_t(request.vramLimit)));
  if (request.dramLimit)
    MOE_RETURN_IF_ERROR(
        limitMemory(target, DeviceKind::Cpu, uint64_t(request.dramLimit)));
  return target;
}
} // namespace

StatusOr<CompileReport> compileModel(const CompileRequest &request) {
  MOE_ASSIGN_OR_RETURN(GgufModel model, GgufModel::open(request.model));
  moert::InputSet inputs = inputsOf(request, model);
  MOE_RETURN_IF_ERROR(inputs.refuse(outputOf(request)));
  MOE_ASSIGN_OR_RETURN(TargetDesc target, targetOf(request));
  if (!request.dumpFolder.empty())
    MOE_RETURN_IF_ERROR(makeFolder(request.dumpFolder));

  const Given given{model, std::move(target), inputs};
  if (!request.ladder.empty())
    return compileLadder(request, given);
  std::optional<PassFailure> failed;
  auto report = compileFor(request, given, failed);
  if (!failed || request.emit == Emit::Forecast)
    return report;
  auto &[failure, context] = *failed;
  auto remedy = findRemedy(
      request, failure.code, context,
      [&](const CompileRequest &near) { return compiles(near, given); });
  if (!remedy)
    return report;
  failure.fix = remedy->change;
  return Status(failure.code, failure.status().message() +
                                  moert::runLine(commandLine(remedy->request)));
}

StatusOr<std::vector<std::string>> checkModel(const GgufModel &model) {
  mlir::MLIRContext context;
  loadDialects(context);
  DiagnosticLog log(&context);
  MOE_ASSIGN_OR_RETURN(mlir::OwningOpRef<mlir::ModuleOp> module,
                       importModel(context, model));
  CompileRequest request;
  request.model = model.paths().front();
  MOE_RETURN_IF_ERROR(checkTokenizer(request, model, *module));
  return notesOf(*module);
}

StatusOr<std::string> inspectPlan(const std::string &path, uint32_t rung) {
  MOE_ASSIGN_OR_RETURN(moert::Plan plan, moert::Plan::read(path));
  MOE_RETURN_IF_ERROR(plan.chooseNamed(rung));
  mlir::MLIRContext context;
  loadDialects(context);
  DiagnosticLog log(&context);
  MOE_ASSIGN_OR_RETURN(
      mlir::OwningOpRef<mlir::ModuleOp> module,
      rung > 0 ? readPlan(context, plan.rung(rung), plan.tokenizer())
               : readPlan(context, plan.rung(0)));
  return textOf(*module);
}

Status assemblePlan(const std::string &textPath, const std::string &output) {
  mlir::MLIRContext context;
  loadDialects(context);
  DiagnosticLog log(&context);
  moert::InputSet inputs;
  inputs.add("the text", textPath);
  MOE_RETURN_IF_ERROR(inputs.refuse(output));
  constexpr uint64_t most = uint64_t(4) << 30; // several times a plan's limit
  MOE_ASSIGN_OR_RETURN(std::string text, moert::readInput(textPath, most));
  std::string name = moert::inputName(textPath);
  MOE_RETURN_IF_ERROR(checkPlanText(name, text));
  auto module = mlir::parseSourceString<mlir::ModuleOp>(
      text, mlir::ParserConfig(&context), name);
  if (!module)
    return log.parseFailure(name);
  MOE_ASSIGN_OR_RETURN(std::vector<mlir::plan::ProgramOp> programs,
                       programsOf(*module));
  return writePlan(programs, output);
}

} // namespace moec
