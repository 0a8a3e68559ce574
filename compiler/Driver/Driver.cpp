#include "compiler/Driver/Driver.h"

#include "compiler/Driver/CommandLine.h"
#include "compiler/Driver/Compilation.h"
#include "compiler/Driver/PlanText.h"
#include "compiler/Serialize/PlanReader.h"
#include "compiler/Serialize/PlanWriter.h"
#include "mlir/Parser/Parser.h"
#include "models/Model.h"
#include "runtime/base/ReadInput.h"
#include "runtime/base/ShellCommand.h"
#include "runtime/plan/Plan.h"

using moert::Status;
using moert::StatusOr;

namespace moec {

namespace {
/// Returns the rule for the files that a request's outputs may replace.
moert::OutputRule ruleOf(const CompileRequest &request,
                         const GgufModel &model) {
  moert::OutputRule rule(request.force);
  for (const std::string &path : model.paths())
    rule.addInput("the model", path);
  for (const auto &[role, path] :
       {std::pair("the target file", request.targetFile),
        std::pair("the router profile", request.routerProfile),
        std::pair("the file of rules", request.rulesFile),
        std::pair("the compiler of kernels", request.nvrtc)})
    if (!path.empty())
      rule.addInput(role, path);
  for (const moert::InputTexts::Text &text : request.texts->all())
    rule.addInput(text.role, text.path);
  return rule;
}

StatusOr<TargetDesc> wholeTargetOf(const CompileRequest &request) {
  if (!request.targetFile.empty()) {
    MOE_ASSIGN_OR_RETURN(const std::string *text,
                         request.texts->read("the target file",
                                             request.targetFile,
                                             kMostTargetBytes));
    return parseTarget(*text, request.targetFile);
  }
  StatusOr<TargetDesc> target =
      resolveTarget(request.target, request.measuring);
  if (request.measuring)
    request.measuring("");
  return target;
}

/// Returns the part of a target that the request may use.
StatusOr<TargetDesc> usablePart(const CompileRequest &request,
                                TargetDesc target) {
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

/// Compiles one plan, or says which near request can be compiled.
static StatusOr<CompileReport> compileOne(const CompileRequest &request,
                                          const CompileInputs &given,
                                          bool isTrial) {
  std::optional<PassFailure> failed;
  auto report = compileFor(isTrial ? asTrial(request) : request, given, failed);
  if (!failed || request.emit == Emit::Forecast)
    return report;
  auto &[failure, context] = *failed;
  auto remedy = findRemedy(
      request, failure.code, context,
      [&](const CompileRequest &near) { return compiles(near, given); });
  if (!remedy)
    return report;
  failure.fix = remedy->change();
  return withRequest(failure.status(), *remedy);
}

/// Compiles for a known machine. A trial writes nothing, and only fails or does
/// not.
static StatusOr<CompileReport> compileOn(const CompileRequest &request,
                                         const CompileInputs &given,
                                         bool isTrial) {
  if (!request.ladder.empty() && request.ladder.front().isAuto) {
    CompileRequest own = request;
    MOE_ASSIGN_OR_RETURN(own.ladder, ladderThatFits(request, given));
    if (own.ladder.size() > 1)
      return compileLadder(own, given, isTrial);
    if (!own.ladder.empty()) {
      own.context = own.ladder.front().context;
      own.kvBudget = std::max(own.kvBudget, own.ladder.front().kvBudget);
    }
    own.ladder.clear();
    return compileOne(own, given, isTrial);
  }
  return request.ladder.empty() ? compileOne(request, given, isTrial)
                                : compileLadder(request, given, isTrial);
}

/// Fails for a vocabulary that the runtime cannot use.
static Status checkVocabulary(const CompileRequest &request,
                              const GgufModel &model) {
  if (request.emit != Emit::Fb || request.noTokenizer)
    return Status::ok();
  mlir::MLIRContext context;
  loadDialects(context);
  DiagnosticLog log(&context);
  MOE_ASSIGN_OR_RETURN(mlir::OwningOpRef<mlir::ModuleOp> module,
                       importModel(context, model));
  return checkTokenizer(request, model, *module);
}

/// If this machine has to be measured first, which takes seconds, compiles for
/// it as it is detected, so that what is wrong with a request is told before.
static Status tryUnmeasured(const CompileRequest &request,
                            const GgufModel &model,
                            const moert::OutputRule &rule) {
  if (!request.targetFile.empty() || request.emit == Emit::Moe)
    return Status::ok();
  MOE_ASSIGN_OR_RETURN(std::optional<TargetDesc> detected,
                       unmeasuredTarget(request.target));
  if (!detected)
    return Status::ok();
  MOE_ASSIGN_OR_RETURN(TargetDesc target,
                       usablePart(request, *std::move(detected)));
  MOE_RETURN_IF_ERROR(checkVocabulary(request, model));
  return compileOn(request, {model, std::move(target), rule},
                   /*isTrial=*/true)
      .status();
}

StatusOr<CompileReport> compileModel(const CompileRequest &request) {
  MOE_ASSIGN_OR_RETURN(GgufModel model, GgufModel::open(request.model));
  const moert::OutputRule rule = ruleOf(request, model);
  if (request.emit != Emit::Forecast)
    MOE_RETURN_IF_ERROR(
        rule.target(outputOf(request), outputKindOf(request.emit)).status());
  MOE_RETURN_IF_ERROR(tryUnmeasured(request, model, rule));
  MOE_ASSIGN_OR_RETURN(TargetDesc target, wholeTargetOf(request));
  MOE_ASSIGN_OR_RETURN(target, usablePart(request, std::move(target)));
  if (!request.dumpFolder.empty())
    MOE_RETURN_IF_ERROR(makeFolder(request.dumpFolder));
  return compileOn(request, {model, std::move(target), rule},
                   /*isTrial=*/false);
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

Status assemblePlan(const std::string &textPath, const std::string &output,
                    bool force) {
  mlir::MLIRContext context;
  loadDialects(context);
  DiagnosticLog log(&context);
  moert::OutputRule rule(force);
  rule.addInput("the text", textPath);
  MOE_RETURN_IF_ERROR(rule.target(output, moert::OutputKind::Plan).status());
  MOE_ASSIGN_OR_RETURN(std::string text,
                       moert::readInput(textPath, moert::kMostTextBytes));
  std::string name = moert::inputName(textPath);
  MOE_RETURN_IF_ERROR(checkPlanText(name, text));
  auto module = mlir::parseSourceString<mlir::ModuleOp>(
      text, mlir::ParserConfig(&context), name);
  if (!module)
    return log.parseFailure(name);
  MOE_ASSIGN_OR_RETURN(std::vector<mlir::plan::ProgramOp> programs,
                       programsOf(*module));
  for (mlir::plan::ProgramOp program : programs)
    for (auto file : program.getBody().getOps<mlir::plan::FileOp>())
      rule.addNeededFile("a file that the plan needs,", output,
                         file.getPath().str());
  MOE_ASSIGN_OR_RETURN(moert::OutputTarget target,
                       rule.target(output, moert::OutputKind::Plan));
  return writePlan(programs, std::move(target));
}

} // namespace moec
