#include "compiler/Driver/CommandLine.h"

#include "compiler/Serialize/WeightsWriter.h"
#include "runtime/base/ShellCommand.h"
#include "runtime/base/Text.h"

#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace moec {

namespace {
std::string_view nameOf(Emit emit) {
  switch (emit) {
  case Emit::Moe:
    return "moe";
  case Emit::Placed:
    return "placed";
  case Emit::Plan:
    return "plan";
  case Emit::Rules:
    return "rules";
  case Emit::Fb:
  case Emit::Forecast: // Of no command that could be suggested.
    return "fb";
  }
  return "fb";
}
} // namespace

/// Options of the machine's memory and of placement, each after a space, as
/// both lines have them.
static std::string placementOptions(const CompileRequest &request) {
  const CompileRequest defaults;
  std::string line;
  auto add = [&](std::string_view name, const std::string &word) {
    line += fmt::format(" {} {}", name, word);
  };
  if (request.vramLimit)
    add("--vram-limit", moert::sizeWord(uint64_t(request.vramLimit)));
  if (request.dramLimit)
    add("--dram-limit", moert::sizeWord(uint64_t(request.dramLimit)));
  if (request.numa != defaults.numa)
    add("--numa", request.numa);
  if (request.optimizeFor != defaults.optimizeFor)
    add("--optimize-for", request.optimizeFor);
  if (request.typicalPrompt != defaults.typicalPrompt)
    add("--typical-prompt", std::to_string(request.typicalPrompt));
  for (const std::string &rule : request.place)
    add("--place", moert::shellWord(rule));
  for (const std::string &rule : request.tensorRules)
    add("-ot", moert::shellWord(rule));
  if (!request.rulesFile.empty())
    add("--rules", moert::shellWord(request.rulesFile));
  if (request.cpuMoeLayers < 0)
    line += " --cpu-moe";
  else if (request.cpuMoeLayers > 0)
    add("--n-cpu-moe", std::to_string(request.cpuMoeLayers));
  if (request.gpuLayers != defaults.gpuLayers)
    add("-ngl", std::to_string(request.gpuLayers));
  if (request.streamExperts != defaults.streamExperts)
    add("--stream-experts", request.streamExperts < 0
                                ? "auto"
                                : std::to_string(request.streamExperts));
  if (request.allowUnmatchedRules)
    line += " --allow-unmatched-rules";
  return line;
}

/// Of --router-profile, after a space.
static std::string profileOptions(const CompileRequest &request) {
  if (request.routerProfile.empty())
    return "";
  std::string line =
      " --router-profile " + moert::shellWord(request.routerProfile);
  if (request.maxDroppedMass > 0)
    line += fmt::format(" --max-dropped-mass {}", request.maxDroppedMass);
  return line;
}

std::string planPath(const CompileRequest &request) {
  return request.output.empty() ? "plan.fb" : request.output;
}

std::string commandLine(const CompileRequest &request) {
  const CompileRequest defaults;
  std::string line = "moec compile " + moert::shellPath(request.model);
  auto add = [&](std::string_view name, const std::string &word) {
    line += fmt::format(" {} {}", name, word);
  };
  auto addText = [&](std::string_view name, auto member) {
    if (request.*member != defaults.*member)
      add(name, moert::shellWord(request.*member));
  };
  auto addNumber = [&](std::string_view name, auto member) {
    if (request.*member != defaults.*member)
      add(name, std::to_string(request.*member));
  };
  if (request.targetFile.empty())
    add("--target", moert::shellWord(request.target));
  else
    add("--target-file", moert::shellPath(request.targetFile));
  if (request.ladder.empty())
    addNumber("--ctx", &CompileRequest::context);
  else
    add("--ladder", ladderWord(request.ladder));
  addNumber("--sequences", &CompileRequest::sequences);
  if (request.kvBudget != defaults.kvBudget)
    add("--kv-budget", moert::sizeWord(uint64_t(request.kvBudget)));
  addNumber("--ubatch", &CompileRequest::ubatch);
  addNumber("--experts", &CompileRequest::experts);
  line += profileOptions(request);
  addNumber("--defer-experts", &CompileRequest::deferExperts);
  addText("--kv-type", &CompileRequest::kvType);
  addText("--mla", &CompileRequest::mla);
  addText("--weights", &CompileRequest::weights);
  line += placementOptions(request);
  addText("--checksums", &CompileRequest::checksums);
  if (!request.gpuArchs.empty())
    add("--gpu-arch", fmt::format("{}", fmt::join(request.gpuArchs, ",")));
  if (!request.nvrtc.empty())
    add("--nvrtc", moert::shellPath(request.nvrtc));
  if (!request.weightsFile.empty())
    add("--weights-file", moert::shellPath(request.weightsFile));
  if (!request.tokenizer)
    line += " --no-tokenizer";
  if (!request.pre.empty())
    add("--pre", moert::shellWord(request.pre));
  if (request.emit != defaults.emit)
    add("--emit", std::string(nameOf(request.emit)));
  if (!request.dumpFolder.empty())
    add("--dump-phases", moert::shellPath(request.dumpFolder));
  if (request.verbose)
    line += " --verbose";
  if (!request.toolOptions.empty())
    line += " " + request.toolOptions;
  if (!request.output.empty())
    add("-o", request.output == "-" ? "-" : moert::shellPath(request.output));
  return line;
}

moert::StatusOr<std::string> shapingOptions(const CompileRequest &request,
                                            int64_t context) {
  std::string machine = "--target " + moert::shellWord(request.target);
  if (!request.targetFile.empty()) {
    std::string path = request.targetFile;
    // A pipe has no place that would be found again.
    std::error_code ignored;
    if (std::filesystem::is_regular_file(path, ignored)) {
      MOE_ASSIGN_OR_RETURN(path, recordedPath(path, planPath(request)));
    }
    machine = "--target-file " + moert::shellWord(path);
  }
  return fmt::format(
      "{} {}{}{} --ubatch {} --kv-type {} --mla {} "
      "--weights {}{}{}{}{}{}{}",
      machine,
      request.ladder.empty() ? fmt::format("--ctx {}", context)
                             : "--ladder " + ladderWord(request.ladder),
      request.sequences > 1 ? fmt::format(" --sequences {}", request.sequences)
                            : "",
      request.kvBudget
          ? " --kv-budget " + moert::sizeWord(uint64_t(request.kvBudget))
          : "",
      request.ubatch, moert::shellWord(request.kvType), request.mla,
      request.weights, placementOptions(request),
      request.checksums == "auto" ? "" : " --checksums " + request.checksums,
      request.experts ? fmt::format(" --experts {}", request.experts)
                      : profileOptions(request),
      request.deferExperts
          ? fmt::format(" --defer-experts {}", request.deferExperts)
          : "",
      request.gpuArchs.empty()
          ? ""
          : fmt::format(" --gpu-arch {}", fmt::join(request.gpuArchs, ",")),
      request.tokenizer ? "" : " --no-tokenizer",
      request.pre.empty() ? "" : " --pre " + moert::shellWord(request.pre));
}

} // namespace moec
