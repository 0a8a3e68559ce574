#include "compiler/Driver/Compilation.h"

#include "compiler/Driver/CommandLine.h"
#include "compiler/Driver/Diagnostics.h"
#include "compiler/Driver/ModuleRules.h"
#include "compiler/Driver/PlacedRules.h"
#include "compiler/Driver/RouterProfile.h"
#include "compiler/Import/PreTokenizerFit.h"
#include "compiler/Import/TokenizerMetadata.h"
#include "compiler/Machine/Targets/TargetAttr.h"
#include "compiler/Serialize/KernelImages.h"
#include "compiler/Serialize/PlanWriter.h"
#include "compiler/Serialize/TokenizerOp.h"
#include "compiler/Serialize/WeightsWriter.h"
#include "dialects/moe/WeightTable.h"
#include "kernels/KvCache.h"
#include "llvm/ADT/StringSet.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "models/Model.h"
#include "passes/moe/Support.h"
#include "passes/moe/graph/Rings.h"
#include "passes/moe/pipeline/Pipelines.h"
#include "passes/plan/PlanPasses.h"
#include "runtime/base/OptionWord.h"
#include "runtime/base/OutputFile.h"
#include "runtime/base/ShellCommand.h"
#include "runtime/base/Text.h"
#include "runtime/base/UserCache.h"
#include "runtime/plan/Plan.h"
#include "runtime/text/PreTokenizer.h"
#include "runtime/text/Tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <optional>

using moert::Status;
using moert::StatusCode;
using moert::StatusOr;

namespace moec {

void loadDialects(mlir::MLIRContext &context) {
  // A module has few functions, so locking would cost more than threads save.
  context.disableMultithreading();
  // User messages contain no IR; moe-opt shows it to developers.
  context.printOpOnDiagnostic(false);
  context.loadDialect<mlir::moe::MoeDialect, mlir::plan::PlanDialect,
                      mlir::func::FuncDialect>();
}

namespace {
/// Sets a pipeline option from the user's value. Fails with Usage if the value
/// is none of the option's words.
template <class T, class CompileInputs>
Status setOption(mlir::moe::PipelineOption<T> &option,
                 const moert::OptionInfo &info, const CompileInputs &given) {
  if constexpr (std::is_enum_v<T>) {
    if (mlir::failed(option.setWord(given)))
      return Status(StatusCode::Usage,
                    fmt::format("{}: expected one of {}; found {}",
                                longName(info),
                                fmt::join(moert::wordsOf(info), ", "),
                                moert::quoted(given)));
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    for (const std::string &value : given)
      option.push_back(value);
  } else {
    option = given;
  }
  return Status::ok();
}

/// Sets the pipeline's options from the request.
Status fillOptions(const CompileRequest &request, int64_t context,
                   mlir::moe::CompileOptions &options) {
#define MOE_PASS_OPTION(field, Type, PassType, fallback, ...)                  \
  MOE_RETURN_IF_ERROR(                                                         \
      setOption(options.field, moec::options::field, request.field));
#include "compiler/Options/Options.def"
  options.context = context;
  options.ubatch = std::min(request.ubatch, context);
  return Status::ok();
}

/// Returns the factor of --rope-scaling, or 1 without it.
StatusOr<double> yarnFactorOf(const CompileRequest &request) {
  std::string_view text = request.ropeScaling;
  if (text.empty())
    return 1.0;
  constexpr std::string_view kKind = "yarn:";
  StatusOr<float> factor = Status(StatusCode::Usage, "");
  if (text.starts_with(kKind))
    factor = moert::parseNumber<float>(text.substr(kKind.size()), 1,
                                       float(kMostYarnFactor));
  if (!factor || *factor == 1)
    return Status(StatusCode::Usage,
                  fmt::format("--rope-scaling: expected yarn:FACTOR with a "
                              "factor above 1 and of at most {}, as in yarn:4; "
                              "found {}",
                              kMostYarnFactor, moert::quoted(text)));
  return double(*factor);
}

/// The context that the model was trained for, or that --rope-scaling makes of
/// it.
int64_t trainedContext(mlir::ModuleOp module) {
  auto facts =
      module->getAttrOfType<mlir::DictionaryAttr>(mlir::moe::kModelAttr);
  auto trained = facts ? facts.getAs<mlir::IntegerAttr>("context_length")
                       : mlir::IntegerAttr();
  return trained ? trained.getInt() : kDefaultContext;
}

/// Returns the context of --ctx, after checking it against the context that the
/// model was trained for.
StatusOr<int64_t> contextOf(const CompileRequest &request,
                            mlir::ModuleOp module) {
  const int64_t most = trainedContext(module);
  if (request.context == 0)
    return std::min(most, kDefaultContext);
  const std::string tokens = moert::counted(most, "token");
  const std::string reach = request.ropeScaling.empty()
                                ? "was trained for " + tokens
                                : fmt::format("reaches {} by --rope-scaling {}",
                                              tokens, request.ropeScaling);
  if (request.context > most)
    return Status(StatusCode::Usage,
                  fmt::format("{} {}: the model {}",
                              request.ladder.empty() ? "--ctx" : "--ladder",
                              request.context, reach));
  return request.context;
}

} // namespace

std::string textOf(mlir::ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  stream << "\n";
  return text;
}

namespace {
/// Writes to the output file or, for "-", to the report.
Status writeText(std::string text, Emit emit, const moert::OutputRule &rule,
                 CompileReport &report) {
  if (report.output == "-") {
    report.text = std::move(text);
    return Status::ok();
  }
  MOE_ASSIGN_OR_RETURN(moert::OutputTarget target,
                       rule.target(report.output, outputKindOf(emit)));
  return moert::writeOutput(std::move(target), text);
}

/// Builds and runs pipelines over one module, with one diagnostic log.
class PassRunner {
public:
  PassRunner(mlir::ModuleOp module, const std::string &dumpFolder,
             const moert::OutputRule &rule)
      : module_(module),
        log_(module.getContext()), state_{rule, "", dumpFolder, 0, {}} {}

  template <typename Build> Status run(Build build) {
    mlir::PassManager manager(module_.getContext());
    manager.addInstrumentation(std::make_unique<PassLog>(state_));
    build(manager);
    if (mlir::failed(manager.run(module_))) {
      failure_ = log_.failureOf(state_.failedPass);
      return failure_->status();
    }
    MOE_RETURN_IF_ERROR(state_.dumpStatus);
    return dumpRemarks();
  }

  const DiagnosticLog &log() const { return log_; }
  /// The failure of the run() in which a pass failed.
  const std::optional<Failure> &failure() const { return failure_; }

private:
  /// Writes all remarks so far, without combining those of layers.
  Status dumpRemarks() const {
    if (state_.dumpFolder.empty())
      return Status::ok();
    std::string text(moert::kRemarksHeader);
    for (const std::string &remark : log_.remarks())
      text += remark + "\n";
    MOE_ASSIGN_OR_RETURN(moert::OutputTarget target,
                         state_.rule.target(state_.dumpFolder + "/remarks.txt",
                                            moert::OutputKind::Remarks));
    return moert::writeOutput(std::move(target), text);
  }

  mlir::ModuleOp module_;
  DiagnosticLog log_;
  PassLog::State state_;
  std::optional<Failure> failure_;
};

} // namespace

Status makeFolder(const std::string &path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error)
    return Status(StatusCode::Io, path + ": " + error.message());
  return Status::ok();
}

StatusOr<std::vector<mlir::plan::ProgramOp>> programsOf(mlir::ModuleOp module) {
  std::vector<mlir::plan::ProgramOp> programs;
  for (auto program : module.getOps<mlir::plan::ProgramOp>())
    programs.push_back(program);
  if (programs.empty())
    return Status(StatusCode::InvalidFile,
                  "expected a plan.program in the module");
  return programs;
}

std::vector<std::string> notesOf(mlir::ModuleOp module) {
  std::vector<std::string> notes;
  if (auto told = module->getAttrOfType<mlir::ArrayAttr>(mlir::moe::kNotesAttr))
    for (auto note : told.getAsRange<mlir::StringAttr>())
      notes.push_back(note.getValue().str());
  return notes;
}

std::vector<std::string> notesOf(mlir::plan::ProgramOp program) {
  std::vector<std::string> notes;
  for (auto note : program.getBody().getOps<mlir::plan::NoteOp>())
    notes.push_back(note.getText().str());
  return notes;
}

std::string outputOf(const CompileRequest &request) {
  if (!request.output.empty())
    return request.output;
  return request.emit == Emit::Fb ? "plan.fb" : "-";
}

moert::OutputKind outputKindOf(Emit emit) {
  switch (emit) {
  case Emit::Fb:
  case Emit::Forecast:
    return moert::OutputKind::Plan;
  case Emit::Rules:
    return moert::OutputKind::Rules;
  case Emit::Moe:
  case Emit::Placed:
  case Emit::Plan:
    break;
  }
  return moert::OutputKind::IrText;
}

namespace {
/// Adds to `failure`, about an unusable tokenizer, the suggestion to compile
/// for token ids only.
Status suggestIds(Status failure, CompileRequest request) {
  request.noTokenizer = true;
  request.pre.clear();
  return suggestRequest(std::move(failure), {moert::Suggestion::TokenIdsAlone,
                                             std::move(request), ""});
}

/// Adds to `failure`, about an unsupported pre-tokenizer, a suggestion: the one
/// that its name misspells, or the one that fits the vocabulary.
Status suggestRules(Status failure, const CompileRequest &request,
                    const GgufModel &model) {
  std::string_view name = request.pre;
  if (name.empty())
    if (auto own = model.getString("tokenizer.ggml.pre"))
      name = own->value_or("");
  CompileRequest other = request;
  if (auto meant = moert::PreTokenizer::meantName(name)) {
    other.pre = *meant;
    return withRequest(std::move(failure),
                       {moert::Suggestion::MeantPreTokenizer, other, ""});
  }
  // List the known names for users who choose a pre-tokenizer.
  if (!request.pre.empty())
    failure =
        std::move(failure).append("; " + moert::PreTokenizer::knownNames());
  std::optional<std::string_view> fits = fittingPreTokenizer(model);
  if (!fits)
    return suggestIds(std::move(failure), request);
  other.pre = *fits;
  return suggestRequest(
      std::move(failure),
      {moert::Suggestion::FittingPreTokenizer, other, std::string(*fits)});
}

/// Adds a note if neither the file nor the request names the pre-tokenizer and
/// the vocabulary was made with other rules than those that are then used. Such
/// files come from converters that did not know the model.
void noteUnnamedRules(const CompileRequest &request, const GgufModel &model,
                      const moert::TokenizerSpec &spec, mlir::ModuleOp module) {
  constexpr std::string_view kUnnamed = "default";
  if (!request.pre.empty() || spec.model != "gpt2" || spec.pre != kUnnamed)
    return;
  std::optional<std::string_view> fits = fittingPreTokenizer(model);
  if (fits == kUnnamed)
    return;
  mlir::moe::addNote(
      module,
      fmt::format("the model file does not name its pre-tokenizer (tokenizer."
                  "ggml.pre is {}), so text may become 8 to 10 % more tokens "
                  "than the model was trained with, and answers may be worse; "
                  "{}",
                  model.find("tokenizer.ggml.pre") ? "\"default\"" : "missing",
                  fits ? fmt::format("--pre {} fits the vocabulary", *fits)
                       : "--pre names the right one"));
}
} // namespace

Status checkTokenizer(const CompileRequest &request, const GgufModel &model,
                      mlir::ModuleOp module) {
  if (!model.find("tokenizer.ggml.tokens"))
    return Status::ok();
  StatusOr<moert::TokenizerSpec> spec =
      tokenizerSpecFromGguf(model, request.pre);
  if (!spec && spec.status().code() != StatusCode::Unsupported)
    return spec.status();
  Status status =
      spec ? moert::Tokenizer::create(*spec).status().at(model.paths().front())
           : spec.status();
  auto facts =
      module->getAttrOfType<mlir::DictionaryAttr>(mlir::moe::kModelAttr);
  auto vocab =
      facts ? facts.getAs<mlir::IntegerAttr>("vocab") : mlir::IntegerAttr();
  if (status.isOk() && vocab && int64_t(spec->tokens.size()) > vocab.getInt())
    status = Status(StatusCode::InvalidFile,
                    fmt::format("{}: tokenizer.ggml.tokens has {} entries, but "
                                "the model has logits for {}",
                                model.paths().front(), spec->tokens.size(),
                                vocab.getInt()));
  if (status.isOk()) {
    noteUnnamedRules(request, model, *spec, module);
    return status;
  }
  return spec ? suggestIds(std::move(status), request)
              : suggestRules(std::move(status), request, model);
}

namespace {
/// Returns the names of the model file's tensors that are weights.
std::vector<std::string> tensorsOf(mlir::ModuleOp module) {
  std::vector<std::string> texts;
  for (mlir::StringAttr name : mlir::moe::fileTensorsOf(module))
    texts.push_back(name.str());
  return texts;
}

/// Returns whether a GPU of the target has work. moert runs a plan without work
/// for GPUs on machines without one.
bool usesGpu(mlir::plan::ProgramOp program) {
  return llvm::any_of(program.getBody().getOps<mlir::plan::DeviceOp>(),
                      [](mlir::plan::DeviceOp device) {
                        return device.getKind() ==
                                   mlir::plan::DeviceKind::Cuda &&
                               device.getArenaBytes() > 0;
                      });
}

/// Adds to `failure`, about a disk without space for packed weights, what to do
/// about it.
Status suggestNoWeights(Status failure, const CompileRequest &request,
                        const CompileInputs &given) {
  CompileRequest reference = request;
  reference.weights = "reference";
  if (!compiles(reference, given))
    return std::move(failure).append("; write to another disk");
  return suggestRequest(std::move(failure),
                        {moert::Suggestion::WithoutPacking, reference, ""});
}

/// Returns options that refer to both arguments.
StatusOr<PlaceWeightsOptions> placeOptions(const CompileRequest &request,
                                           const CompileInputs &given) {
  MOE_ASSIGN_OR_RETURN(
      PairPaths paths,
      PairPaths::resolve(outputOf(request), request.weightsFile));
  PlaceWeightsOptions options{std::move(paths), given.rule};
  options.progress = request.progress;
  options.withoutSpace = [&](Status failure) {
    return suggestNoWeights(std::move(failure), request, given);
  };
  if (request.checksums != "auto")
    options.checksums = request.checksums == "full";
  options.blank = request.blankWeights;
  return options;
}

/// Weights of so many bytes are laid out while they load by --weights auto:
/// many disks have no room for a second copy, and to read one takes longer than
/// to lay out what was read.
constexpr int64_t kLoadedFrom = int64_t(16) << 30;
/// The choice is mentioned from so many bytes on.
constexpr int64_t kWorthANote = int64_t(256) << 20;

/// Returns the seconds in which the host lays out weights whose file is in
/// memory already. A core packs some 1.5 GB/s, and each byte is moved about
/// five times: out of the page cache, into a cache, to memory that was just
/// cleared.
double layOutSeconds(int64_t bytes, const DeviceDesc &host) {
  double rate =
      std::min(host.cores * 1.5e9, host.read.planned(Peak::kAssumedRead) / 5);
  return double(bytes) / rate;
}

/// Says what --weights auto chose, and what the other way costs.
std::string weightsNote(int64_t bytes, bool isLoaded, const DeviceDesc &host) {
  std::string size = moert::humanBytes(double(bytes));
  std::string start = fmt::format("about {:.1f} s at each start once the model "
                                  "is in memory",
                                  layOutSeconds(bytes, host));
  return isLoaded
             ? fmt::format("--weights auto: {} of weights are laid out while "
                           "they load, {}; --weights pack would write them to "
                           "the disk and map them at once",
                           size, start)
             : fmt::format("--weights auto: {} of weights are written as they "
                           "are read and mapped at once; --weights load would "
                           "leave them in the model file alone and lay them "
                           "out, {}",
                           size, start);
}

} // namespace

StatusOr<std::string> packWeights(mlir::ModuleOp module,
                                  const CompileRequest &request,
                                  const CompileInputs &given) {
  const int64_t bytes = mlir::plan::loadableBytes(module);
  const bool isAuto = request.weights == "auto" && !request.blankWeights;
  const bool loads = request.weights == "load" ||
                     request.weights == "reference" ||
                     (isAuto && bytes >= kLoadedFrom);
  mlir::PassManager manager(module.getContext());
  manager.addPass(mlir::plan::createPlanPackWeightsPass(
      {.all = request.weights == "pack", .load = loads}));
  if (mlir::failed(manager.run(module)))
    return Status(StatusCode::Internal, "plan-pack-weights failed");
  MOE_ASSIGN_OR_RETURN(PlaceWeightsOptions options,
                       placeOptions(request, given));
  MOE_RETURN_IF_ERROR(checkWeightsPlace(module, options));
  return isAuto && bytes >= kWorthANote
             ? weightsNote(bytes, loads, given.target.host())
             : std::string();
}

Status writePair(mlir::ModuleOp module, const CompileRequest &request,
                 const CompileInputs &given, CompileReport &report) {
  MOE_ASSIGN_OR_RETURN(std::vector<mlir::plan::ProgramOp> programs,
                       programsOf(module));
  MOE_ASSIGN_OR_RETURN(PlaceWeightsOptions options,
                       placeOptions(request, given));
  MOE_ASSIGN_OR_RETURN(PlacedWeights placed, placeWeights(module, options));
  MOE_ASSIGN_OR_RETURN(report.plan, serializePlan(programs));
  MOE_ASSIGN_OR_RETURN(
      moert::OutputTarget target,
      given.rule.target(report.output, outputKindOf(request.emit)));
  MOE_ASSIGN_OR_RETURN(moert::OutputFile plan,
                       startPlan(report.plan, std::move(target)));
  std::string before = weightsOfOldPlan(options.paths);
  if (placed.file) {
    report.packed = options.paths.weights;
    report.packedBytes = placed.bytes;
    if (request.blankWeights)
      report.notes.push_back(moert::shellPath(report.packed) +
                             " is blank: all weights are zero until another "
                             "program writes some");
  } else if (!request.weightsFile.empty()) {
    report.notes.push_back("nothing was packed, so there is no " +
                           moert::shellPath(request.weightsFile));
  }
  MOE_RETURN_IF_ERROR(commitPair(options.paths, given.rule, std::move(plan),
                                 std::move(placed.file)));
  std::error_code error;
  if (!before.empty() &&
      !std::filesystem::equivalent(before, report.packed, error))
    report.notes.push_back(
        fmt::format("the plan does not use {} any more; remove it if no copy "
                    "of the old plan needs it",
                    moert::shellPath(before)));
  return Status::ok();
}

Status compileKernels(mlir::plan::ProgramOp program,
                      const CompileRequest &request) {
  KernelImageOptions options;
  options.nvrtc = request.nvrtc;
  options.archs = request.gpuArchs;
  std::string cache = moert::userCacheFolder();
  options.cacheFolder = cache.empty() ? "" : cache + "/kernels";
  options.progress = [&](uint64_t done, uint64_t total) {
    if (request.measuring)
      request.measuring(done == total ? ""
                                      : fmt::format("kernel {} of {} for GPUs",
                                                    done + 1, total));
    return !request.progress || request.progress("compiling kernels", 0, 0);
  };
  return addKernelImages(program, options);
}

/// Records the tensors of the file that no op reads (kUnusedTensorsAttr).
static void noteUnused(mlir::ModuleOp module, const GgufModel &model) {
  llvm::StringSet<> used;
  for (mlir::StringAttr name : mlir::moe::fileTensorsOf(module))
    used.insert(name.getValue());
  llvm::SmallVector<mlir::Attribute> unused;
  for (const GgufTensor &tensor : model.tensors())
    if (!used.contains(tensor.name))
      unused.push_back(mlir::StringAttr::get(module.getContext(), tensor.name));
  if (!unused.empty())
    module->setAttr(mlir::moe::kUnusedTensorsAttr,
                    mlir::ArrayAttr::get(module.getContext(), unused));
}

StatusOr<Lowered> lower(mlir::MLIRContext &context,
                        const CompileRequest &request,
                        const CompileInputs &given,
                        std::optional<PassFailure> &failed) {
  const auto &[model, target, rule] = given;
  Lowered lowered;
  CompileReport &report = lowered.report;
  mlir::OwningOpRef<mlir::ModuleOp> &module = lowered.module;
  report.output = outputOf(request);
  MOE_ASSIGN_OR_RETURN(double yarnFactor, yarnFactorOf(request));
  MOE_ASSIGN_OR_RETURN(
      module, importModel(context, model,
                          {.positions = request.context ? request.context
                                                        : kDefaultContext,
                           .mtp = request.mtp,
                           .yarnFactor = yarnFactor}));
  report.notes = target.notes;
  if (request.emit == Emit::Moe) {
    MOE_RETURN_IF_ERROR(writeText(textOf(*module), request.emit, rule, report));
    return lowered;
  }
  if (request.emit == Emit::Fb && !request.noTokenizer)
    MOE_RETURN_IF_ERROR(checkTokenizer(request, model, *module));

  MOE_ASSIGN_OR_RETURN(int64_t positions, contextOf(request, *module));
  (*module)->setAttr(mlir::moe::kTargetAttr, toAttr(&context, target));
  mlir::moe::CompileOptions options;
  MOE_RETURN_IF_ERROR(fillOptions(request, positions, options));
  noteUnused(*module, model);
  if (!request.rulesFile.empty()) {
    const std::vector<std::string> tensors = tensorsOf(*module);
    MOE_ASSIGN_OR_RETURN(
        ModuleRules rules,
        readModuleRules(*request.texts, request.rulesFile,
                        {.architecture = model.architecture(),
                         .tensors = tensors,
                         .target = target,
                         .ubatch = options.ubatch
                                       ? int64_t(options.ubatch)
                                       : std::min(kLongUbatch, positions),
                         .context = positions,
                         .streams = request.streamExperts > 0,
                         .allowUnmatched = request.allowUnmatchedRules}));
    for (const std::string &rule : rules.tensorRules)
      options.tensorRules.push_back(rule);
    std::ranges::move(rules.notes, std::back_inserter(report.notes));
    if (rules.keepsExperts && request.streamExperts < 0)
      options.streamExperts = 0;
    if (rules.streamFrom > 0) {
      options.streamExperts = rules.streamFrom;
      options.streamSource = rules.streamSource;
    }
  }
  if (!request.routerProfile.empty()) {
    MOE_ASSIGN_OR_RETURN(RouterProfile profile,
                         readRouterProfile(*request.texts,
                                           request.routerProfile,
                                           request.maxDroppedMass, *module));
    if (request.maxDroppedMass > 0)
      for (int64_t count : profile.counts)
        options.layerExperts.push_back(count);
    // Experts that are not a leading range are copied into packed weights, so
    // they need packing.
    if (request.weights != "reference")
      setFrequencies(profile, *module);
  }
  PassRunner runner(*module, request.dumpFolder, rule);
  Status placed = runner.run([&](mlir::PassManager &manager) {
    mlir::moe::buildCompilePipeline(manager, options);
  });
  if (runner.failure())
    failed = {*runner.failure(),
              {positions, mlir::moe::kvRowsOf(positions) / moek::kKvPage *
                                  mlir::moe::kvPageBytes(*module) +
                              mlir::moe::stateBytes(*module)}};
  MOE_RETURN_IF_ERROR(placed);
  (*module)->removeAttr(mlir::moe::kUnusedTensorsAttr);
  if (auto rules = (*module)->getAttrOfType<mlir::ArrayAttr>(
          mlir::moe::kFollowedRulesAttr)) {
    for (auto rule : rules.getAsRange<mlir::StringAttr>())
      lowered.followedRules.push_back(rule.getValue().str());
    (*module)->removeAttr(mlir::moe::kFollowedRulesAttr);
  }
  if (request.verbose)
    report.remarks = collapseLayers(runner.log().remarks());
  if (request.emit == Emit::Placed || request.emit == Emit::Rules) {
    std::ranges::move(notesOf(*module), std::back_inserter(report.notes));
    MOE_RETURN_IF_ERROR(writeText(
        request.emit == Emit::Rules ? placedRules(*module) : textOf(*module),
        request.emit, rule, report));
    return lowered;
  }

  MOE_ASSIGN_OR_RETURN(std::string userOptions, recordedOptions(request));
  MOE_RETURN_IF_ERROR(runner.run([&](mlir::PassManager &manager) {
    mlir::plan::PlanPipelineOptions options;
    options.userOptions = userOptions;
    mlir::plan::buildPlanPipeline(manager, options);
  }));
  if (request.verbose)
    report.remarks = collapseLayers(runner.log().remarks());
  MOE_ASSIGN_OR_RETURN(std::vector<mlir::plan::ProgramOp> programs,
                       programsOf(*module));
  if (usesGpu(programs.front()))
    report.notes.emplace_back(moert::kGpuPlanNote);
  if (request.emit == Emit::Plan) {
    MOE_RETURN_IF_ERROR(writeText(textOf(*module), request.emit, rule, report));
    return lowered;
  }

  if (request.emit == Emit::Forecast)
    report.forecast = forecastOf(programs.front());
  else
    lowered.program = programs.front();
  return lowered;
}

/// Says what it costs that attention follows tensor rules: what is predicted
/// with them and without.
static void noteCost(Lowered &one, const CompileRequest &request,
                     const CompileInputs &given) {
  // Rules of a file have other names.
  if (one.followedRules.empty() || request.tensorRules.empty())
    return;
  CompileRequest other = request;
  other.emit = Emit::Forecast;
  other.output.clear();
  other.dumpFolder.clear();
  other.tensorRules.clear();
  for (llvm::StringRef text : request.tensorRules) {
    llvm::SmallVector<llvm::StringRef> rules;
    text.split(rules, ',');
    for (llvm::StringRef rule : rules)
      if (!llvm::is_contained(one.followedRules, rule))
        other.tensorRules.push_back(rule.str());
  }
  mlir::MLIRContext context;
  loadDialects(context);
  std::optional<PassFailure> failed;
  StatusOr<Lowered> without = lower(context, other, given, failed);
  if (!without || !without->report.forecast)
    return;
  const Forecast with = forecastOf(one.program);
  one.report.notes.push_back(fmt::format(
      "predicted with attention there: prefill {:.4g} tokens/s, decode {:.4g}; "
      "without {}: prefill {:.4g}, decode {:.4g}",
      with.prefillRate, with.decodeRate, fmt::join(one.followedRules, ", "),
      without->report.forecast->prefillRate,
      without->report.forecast->decodeRate));
}

StatusOr<CompileReport> compileFor(const CompileRequest &request,
                                   const CompileInputs &given,
                                   std::optional<PassFailure> &failed) {
  mlir::MLIRContext context;
  loadDialects(context);
  MOE_ASSIGN_OR_RETURN(Lowered one, lower(context, request, given, failed));
  if (!one.program)
    return std::move(one.report);
  MOE_ASSIGN_OR_RETURN(std::string note,
                       packWeights(*one.module, request, given));
  if (!note.empty())
    one.report.notes.push_back(std::move(note));
  MOE_RETURN_IF_ERROR(addTokenizer(one.program, given.model,
                                   !request.noTokenizer, request.pre));
  MOE_RETURN_IF_ERROR(compileKernels(one.program, request));
  MOE_RETURN_IF_ERROR(writePair(*one.module, request, given, one.report));
  std::ranges::move(notesOf(one.program), std::back_inserter(one.report.notes));
  noteCost(one, request, given);
  return std::move(one.report);
}

StatusOr<int64_t> trainedContext(const CompileRequest &request,
                                 const GgufModel &model) {
  mlir::MLIRContext context;
  loadDialects(context);
  MOE_ASSIGN_OR_RETURN(double yarnFactor, yarnFactorOf(request));
  MOE_ASSIGN_OR_RETURN(mlir::OwningOpRef<mlir::ModuleOp> module,
                       importModel(context, model,
                                   {.positions = kDefaultContext,
                                    .mtp = false,
                                    .yarnFactor = yarnFactor}));
  return trainedContext(*module);
}

CompileRequest asTrial(CompileRequest request) {
  request.emit = Emit::Placed;
  request.output.clear();
  request.dumpFolder.clear();
  return request;
}

bool compiles(CompileRequest request, const CompileInputs &given) {
  request = asTrial(std::move(request));
  std::optional<PassFailure> failed;
  if (request.ladder.empty())
    return compileFor(request, given, failed).isOk();
  for (const LadderRung &rung : request.ladder) {
    auto own = inputsOfRung(rung, given);
    request.context = rung.context;
    if (!own || !compileFor(request, *own, failed).isOk())
      return false;
  }
  return true;
}

} // namespace moec
