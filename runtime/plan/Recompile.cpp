#include "runtime/plan/Recompile.h"

#include "kernels/KvCache.h"
#include "runtime/base/ShellCommand.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/plan/PlanFiles.h"
#include "runtime/plan/States.h"

#include <algorithm>
#include <filesystem>
#include <vector>

namespace moert {

namespace {
namespace stdfs = std::filesystem;

/// A smaller context would not be useful; moec's Remedy.cpp has the same limit.
constexpr int64_t kLeastContext = 256;

/// Returns a path that the plan records, relative to the current folder.
std::string fromHere(std::string_view planPath, std::string_view recorded) {
  return (stdfs::path(planPath).parent_path() / recorded).string();
}

bool isFile(const std::string &path) {
  std::error_code ignored;
  return stdfs::is_regular_file(path, ignored);
}

/// Returns the path of the model: the one that the user gave, else the plan's
/// if that file exists, else "".
std::string modelPath(const fb::Plan &plan, std::string_view planPath,
                      std::span<const std::string> given) {
  if (!given.empty())
    return given.front();
  for (uint32_t i = 0; i < count(plan.files()); ++i) {
    const fb::File &file = *plan.files()->Get(i);
    if (file.kind() != fb::FileKind::Model || text(file.path()).empty())
      continue;
    std::string path = fromHere(planPath, text(file.path()));
    return isFile(path) ? path : "";
  }
  return "";
}

/// Returns whether the plan was compiled with a size of the cache instead of a
/// context per sequence.
bool hasKvBudget(const fb::Plan &plan) {
  std::vector<std::string> words =
      shellSplit(text(plan.options())).value_or(std::vector<std::string>());
  return std::ranges::find(words, "--kv-budget") != words.end();
}

/// Returns the bytes of one page in the caches of all layers.
uint64_t kvPageBytes(const fb::Plan &plan) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < count(plan.kv()); ++i) {
    const fb::Kv *kv = plan.kv()->Get(i);
    if (kv->row_per_sequence())
      continue;
    bytes += uint64_t(
        moek::kvBytes(moek::KvType(kv->type()), kv->width(), moek::kKvPage));
  }
  return bytes;
}

/// Returns a --kv-budget for this many pages.
OptionChange budgetOf(const fb::Plan &plan, int64_t pages) {
  return {"--kv-budget", sizeWord(uint64_t(pages) * kvPageBytes(plan) +
                                  uint64_t(stateBytes(plan)))};
}

/// Returns the plan's weights file if the command must name it. That is not so
/// for the file beside the plan that moec would choose, nor for the file of
/// another plan: a copy of a plan uses the weights of the original.
std::string otherWeights(const fb::Plan &plan, std::string_view planPath) {
  stdfs::path usual = stdfs::path(planPath).filename();
  if (usual.extension() == ".fb")
    usual.replace_extension();
  usual += ".weights";
  for (uint32_t i = 0; i < count(plan.files()); ++i) {
    const fb::File &file = *plan.files()->Get(i);
    if (file.kind() != fb::FileKind::Packed || text(file.path()) == usual)
      continue;
    std::string path = fromHere(planPath, text(file.path()));
    auto header = weightsHeader(path);
    bool isOfAnother =
        header && !ownerOtherThan(*header, path, std::string(planPath)).empty();
    return isOfAnother ? "" : path;
  }
  return "";
}
} // namespace

Remedy recompile(Suggestion suggestion, const fb::Plan &plan,
                 std::string_view planPath, std::vector<OptionChange> changes,
                 std::span<const std::string> modelPaths) {
  RecompileCommand command{.plan = std::string(planPath),
                           .options = std::string(text(plan.options())),
                           .model = modelPath(plan, planPath, modelPaths),
                           .weights = otherWeights(plan, planPath),
                           .changes = std::move(changes)};
  return {suggestion, std::move(command)};
}

Status adviseContext(Status failure, const fb::Plan &plan,
                     std::string_view planPath, int64_t tokens,
                     std::span<const std::string> modelPaths) {
  if (plan.trained_context() > 0 && tokens > plan.trained_context())
    return std::move(failure).append(fmt::format(
        "; the model was trained for {}, so the text must be shorter",
        plan.trained_context()));
  // Suggest twice the context if the model supports it, because the text may
  // grow further.
  int64_t roomy = 2 * int64_t(plan.context());
  if (plan.trained_context() > 0)
    roomy = std::min<int64_t>(roomy, plan.trained_context());
  int64_t context = std::max(tokens, roomy);
  std::vector<OptionChange> changes{{"--ctx", std::to_string(context)}};
  if (hasKvBudget(plan) && kvPagesOf(context) * moek::kKvPage > kvRows(plan))
    changes.push_back(budgetOf(plan, kvPagesOf(context)));
  return std::move(failure).suggesting(
      recompile(Suggestion::LargerContext, plan, planPath, std::move(changes),
                modelPaths));
}

Status adviseMemory(Status failure, const fb::Plan &plan,
                    std::string_view planPath, uint64_t rest, uint64_t weights,
                    uint64_t available,
                    std::span<const std::string> modelPaths) {
  // Everything but the pages of the cache keeps its size. The remaining memory
  // holds as many pages as fit.
  rest += uint64_t(stateBytes(plan));
  uint64_t page = kvPageBytes(plan);
  bool hasBudget = hasKvBudget(plan);
  int64_t shares = hasBudget ? 1 : std::max(plan.sequences(), 1);
  auto pagesBeside = [&](uint64_t taken) {
    return taken < available && page > 0 ? int64_t((available - taken) / page)
                                         : 0;
  };
  auto contextOf = [&](int64_t pages) {
    return std::min<int64_t>(pages / shares * moek::kKvPage, plan.context());
  };
  int64_t useful = std::min<int64_t>(kLeastContext, plan.context() / 2);
  int64_t pages = pagesBeside(rest + weights);
  // If the weights leave too little memory, they will have to be paged.
  if (contextOf(pages) < useful)
    pages = pagesBeside(rest);
  int64_t each = kvPagesOf(plan.context()), context = contextOf(pages);
  int32_t ubatch = 1;
  for (const fb::Phase *phase : *plan.phases())
    if (isPrefill(kindOf(*phase)))
      ubatch = std::max(ubatch, phase->max_tokens());

  Suggestion change = Suggestion::SmallerContext;
  std::vector<OptionChange> changes;
  if (pages >= each && hasBudget) {
    change = Suggestion::SmallerCache;
    changes = {budgetOf(plan, pages)};
  } else if (pages >= each && shares > 1) {
    change = Suggestion::FewerSequences;
    changes = {{"--sequences", std::to_string(pages / each)}};
  } else if (context > 0 && (context >= useful || ubatch < 2)) {
    changes = {{"--ctx", std::to_string(context)}};
    if (hasBudget)
      changes.push_back(budgetOf(plan, pages));
  } else if (ubatch > 1) {
    change = Suggestion::SmallerSteps;
    changes = {{"--ubatch", std::to_string(std::max(ubatch / 8, 1))}};
  } else {
    return std::move(failure).append(
        "; end other programs, or use a machine with more memory");
  }
  return std::move(failure).suggesting(
      recompile(change, plan, planPath, std::move(changes), modelPaths));
}

Remedy compileFirst(const std::string &modelPath) {
  stdfs::path plan = stdfs::path(modelPath).stem();
  plan += ".fb";
  return {Suggestion::CompileFirst, CompileCommand{.model = modelPath,
                                                   .options = {},
                                                   .output = plan.string()}};
}

} // namespace moert
