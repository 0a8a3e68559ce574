// moert verify: checks that every byte which a plan reads is as it was when the
// plan was compiled.
#include "runtime/plan/PlanAccess.h"
#include "runtime/plan/Recompile.h"
#include "runtime/plan/VerifyContent.h"
#include "tools/common/Interrupt.h"
#include "tools/common/Json.h"
#include "tools/common/Progress.h"
#include "tools/moert/Commands.h"
#include "tools/moert/Shared.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>

namespace moert {

namespace {
/// Maximum number of damaged weights listed per file; --json lists all.
constexpr size_t kListed = 20;

struct VerifyFlags {
  EngineFlags engine;
  bool json = false;
};

struct Content {
  std::vector<FileContent> files;
  double seconds = 0;

  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const FileContent &file : files)
      sum += file.bytes;
    return sum;
  }
  size_t damaged() const {
    size_t sum = 0;
    for (const FileContent &file : files)
      sum += file.damaged.size();
    return sum;
  }
};

void printJson(const std::string &plan, const Content &content, bool intact) {
  using Json = nlohmann::ordered_json;
  Json object = {{"plan", plan}, {"intact", intact}};
  object["files"] = Json::array();
  for (const FileContent &file : content.files) {
    Json damaged = Json::array();
    for (const DamagedWeight &weight : file.damaged)
      damaged.push_back({{"name", weight.name},
                         {"offset", weight.extent.offset},
                         {"bytes", weight.extent.bytes}});
    object["files"].push_back({{"path", file.path},
                               {"intact", file.isIntact()},
                               {"weights_checked", file.weights},
                               {"bytes_checked", file.bytes},
                               {"weights_sampled", file.sampled},
                               {"bytes_unchecked", file.unchecked},
                               {"samples_differ", file.samplesDiffer},
                               {"damaged", std::move(damaged)}});
  }
  object["bytes_checked"] = content.bytes();
  object["seconds"] = content.seconds;
  moetool::printDocument(object);
}

void printFile(const FileContent &file) {
  std::string text;
  if (file.weights > 0)
    text = fmt::format("every byte of {} read ({})",
                       counted(file.weights, "weight"),
                       humanBytes(double(file.bytes)));
  if (file.sampled > 0)
    text += fmt::format(
        "{}samples alone of {} ({} not checked)", text.empty() ? "" : ", ",
        counted(file.sampled, "weight"), humanBytes(double(file.unchecked)));
  moetool::print("{}: {}{}\n", escaped(file.path),
                 file.isIntact() ? "intact" : "DAMAGED",
                 text.empty() ? "" : "; " + text);
  if (file.samplesDiffer)
    moetool::print("  samples of its weights differ: another model of the same "
                   "shape, or damage\n");
  for (size_t i = 0; i < std::min(file.damaged.size(), kListed); ++i)
    moetool::print("  {} (somewhere in bytes {} to {})\n",
                   escaped(file.damaged[i].name), file.damaged[i].extent.offset,
                   file.damaged[i].extent.end() - 1);
  if (file.damaged.size() > kListed)
    moetool::print("  and {} more; --json lists them\n",
                   file.damaged.size() - kListed);
}

void printText(const Plan &plan, const EngineOptions &options,
               const Content &content) {
  // Plan::load() refuses a damaged plan, so this one is intact.
  moetool::print("{}: intact\n", escaped(plan.path()));
  for (const FileContent &file : content.files)
    printFile(file);
  double bytes = double(content.bytes());
  moetool::print("checked {} in {:.2f} s, {}/s\n", humanBytes(bytes),
                 content.seconds,
                 humanBytes(bytes / std::max(content.seconds, 1e-6)));
  if (std::ranges::any_of(content.files, [](const FileContent &file) {
        return file.sampled > 0;
      })) {
    Remedy full =
        recompile(Suggestion::FullChecksums, plan.table(), plan.path(),
                  {{"--checksums", "full"}}, options.files.models);
    moetool::printText(
        moetool::pasteable(full.text() + moetool::ending(full) + "\n"));
  }
}

/// Adds to the failure `what` how to repair the damage: a model has to be
/// copied again, packed weights can be recompiled, and for another model, which
/// may be sound, a plan can be compiled.
Status damage(std::string what, const Plan &plan, const EngineOptions &options,
              const Content &content) {
  for (const FileContent &file : content.files)
    if (!file.damaged.empty() && file.isModel)
      return Status(StatusCode::InvalidFile, what + "; copy the file again");
  return Status(StatusCode::InvalidFile, std::move(what))
      .suggesting(recompile(Suggestion::DamagedWeights, plan.table(),
                            plan.path(), {}, options.files.models));
}

/// Finds the files of a plan or of each rung of a ladder. Other weights than
/// expected are reported, not refused.
StatusOr<std::vector<std::vector<InputFile>>>
filesOf(Plan &plan, const WeightPaths &paths) {
  std::vector<std::vector<InputFile>> files;
  for (uint32_t number = std::min(plan.rungs(), 1u); number <= plan.rungs();
       ++number) {
    plan.choose(number);
    MOE_ASSIGN_OR_RETURN(std::vector<InputFile> found,
                         findWeightFiles(plan, paths, FileCheck::Header));
    files.push_back(std::move(found));
  }
  return files;
}

/// Adds the results for the files of another rung.
void merge(std::vector<FileContent> more, std::vector<FileContent> &files) {
  for (FileContent &content : more) {
    auto file = std::ranges::find(files, content.path, &FileContent::path);
    if (file == files.end()) {
      files.push_back(std::move(content));
      continue;
    }
    file->weights += content.weights;
    file->bytes += content.bytes;
    file->sampled = std::max(file->sampled, content.sampled);
    file->unchecked = std::max(file->unchecked, content.unchecked);
    file->samplesDiffer |= content.samplesDiffer;
    std::ranges::move(content.damaged, std::back_inserter(file->damaged));
  }
}

Status verify(const VerifyFlags &flags) {
  const std::string &path = flags.engine.plan;
  std::optional<Plan> plan;
  std::vector<std::vector<InputFile>> files;
  MOE_RETURN_IF_ERROR(openWithPlan(path, [&](Plan loaded) -> Status {
    MOE_ASSIGN_OR_RETURN(files, filesOf(loaded, flags.engine.options.files));
    plan.emplace(std::move(loaded));
    return Status::ok();
  }));

  const std::atomic<bool> *interrupted = moetool::catchInterrupt();
  moetool::Progress progress("verifying");
  auto start = std::chrono::steady_clock::now();
  Content content;
  VerifiedWeights verified;
  PiecesOptions pieces{0, [&](uint64_t done, uint64_t total) {
                         progress.update(done, total);
                         return !*interrupted;
                       }};
  for (size_t i = 0; i < files.size(); ++i) {
    plan->choose(plan->rungs() == 0 ? 0 : uint32_t(i + 1));
    MOE_ASSIGN_OR_RETURN(std::vector<FileContent> more,
                         verifyContent(*plan, files[i], pieces, verified));
    merge(std::move(more), content.files);
  }
  content.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  progress.finish();

  std::string damaged;
  for (const FileContent &file : content.files)
    if (!file.isIntact())
      damaged += (damaged.empty() ? "" : ", ") + escaped(file.path);
  if (flags.json)
    printJson(path, content, damaged.empty());
  else
    printText(*plan, flags.engine.options, content);
  if (damaged.empty())
    return Status::ok();
  std::string what =
      content.damaged() > 0
          ? fmt::format("{}: {} damaged", damaged,
                        counted(content.damaged(), "weight"))
          : damaged + ": holds other weights than the plan was compiled from";
  return damage(std::move(what), *plan, flags.engine.options, content);
}
} // namespace

void addVerifyCommand(moetool::Tool &tool) {
  auto flags = std::make_shared<VerifyFlags>();
  CLI::App *command = tool.command(
      "verify",
      "Check every byte that a plan reads against what was recorded when it "
      "was compiled, and name damaged weights",
      [flags] { return verify(*flags); });
  flags->engine.addPlan(*command);
  moetool::addOption(*command, rows::json, flags->json);
  flags->engine.addModel(*command);
}

} // namespace moert
