#include "runtime/plan/Recompile.h"

#include "kernels/KvCache.h"
#include "runtime/base/OptionInfo.h"
#include "runtime/base/ShellCommand.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/plan/PlanFiles.h"
#include "runtime/plan/States.h"
#include "runtime/schema/OpTable.h"

#include <algorithm>
#include <filesystem>
#include <vector>

namespace moert {

namespace {
namespace stdfs = std::filesystem;

/// A smaller context helps nobody (moec's Remedy.cpp agrees).
constexpr int64_t kLeastContext = 256;

/// A row of moec's table of options. Those that name files to write are not
/// taken from a plan file.
struct OptionRow {
  OptionInfo info;
  std::string_view fallback; ///< As the table spells it.

  bool isDefault(const std::string &value) const {
    return fallback == value || fallback == '"' + value + '"';
  }
};
constexpr OptionRow kOptionRows[] = {
#define MOE_OPTION(field, Type, fallback, ...) {{__VA_ARGS__}, #fallback},
#include "compiler/Options/Options.def"
};

/// The row of an option that plans record; null for any other.
const OptionRow *findRow(std::string_view name) {
  auto it = std::ranges::find_if(kOptionRows, [&](const OptionRow &row) {
    return longName(row.info) == name && (row.info.use & kRecorded);
  });
  return it == std::end(kOptionRows) ? nullptr : it;
}

/// A path that the plan records, from the current folder.
std::string fromHere(std::string_view planPath, std::string_view recorded) {
  return (stdfs::path(planPath).parent_path() / recorded).string();
}

bool isFile(const std::string &path) {
  std::error_code ignored;
  return stdfs::is_regular_file(path, ignored);
}

/// Where the plan's model is: what the user gave, else what the plan says, if
/// there is a file.
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

/// The options of the plan's compilation; flags have no value. The path "-" is
/// that of a stream.
std::vector<OptionChange> recordedOptions(const std::vector<std::string> &words,
                                          std::string_view planPath) {
  std::vector<OptionChange> options;
  for (size_t i = 0; i < words.size(); ++i) {
    const OptionRow *row = findRow(words[i]);
    if (row && row->info.kind == OptionKind::Flag)
      options.push_back({longName(row->info), ""});
    else if (row && i + 1 < words.size()) {
      const std::string &value = words[++i];
      bool isFile = row->info.kind == OptionKind::Path && value != "-";
      options.push_back(
          {longName(row->info), isFile ? fromHere(planPath, value) : value});
    }
  }
  return options;
}

/// The options that shaped the plan, as it records them.
std::vector<OptionChange> optionsOf(const fb::Plan &plan,
                                    std::string_view planPath) {
  return recordedOptions(
      shellSplit(text(plan.options())).value_or(std::vector<std::string>()),
      planPath);
}

/// A ladder (moec's Ladder.h) for another machine: budgets are of this one's
/// GPUs.
std::string withoutBudgets(std::string_view ladder) {
  std::vector<std::string_view> contexts;
  while (!ladder.empty()) {
    size_t end = std::min(ladder.find(','), ladder.size());
    std::string_view rung = ladder.substr(0, end);
    rung = rung.substr(0, rung.find('@'));
    if (std::ranges::find(contexts, rung) == contexts.end())
      contexts.push_back(rung);
    ladder.remove_prefix(std::min(end + 1, ladder.size()));
  }
  return fmt::format("{}", fmt::join(contexts, ","));
}

/// The options with a change. A ladder gets one more rung of a context.
void apply(const OptionChange &change, std::vector<OptionChange> &options) {
  auto find = [&](std::string_view name) {
    return std::ranges::find(options, name, &OptionChange::name);
  };
  auto ladder = find("--ladder");
  if (change.name == "--target") {
    if (ladder != options.end()) {
      ladder->value = withoutBudgets(ladder->value);
      if (ladder->value.find(',') == std::string::npos)
        ladder->name = "--ctx";
    }
    // Rules and limits were for the devices of the machine before.
    std::erase_if(options, [](const OptionChange &old) {
      return findRow(old.name)->info.use & kOfMachine;
    });
  } else if (change.name == "--ctx" && ladder != options.end()) {
    ladder->value += "," + change.value;
    return;
  }
  if (auto old = find(change.name); old != options.end())
    old->value = change.value;
  else
    options.push_back(change);
}

/// Why a command with these options cannot compile the plan again: a file that
/// they name is gone, or was a stream. "" where it can.
std::string whatIsLost(const std::vector<OptionChange> &options) {
  for (const OptionChange &option : options) {
    if (findRow(option.name)->info.kind != OptionKind::Path)
      continue;
    if (option.value == "-")
      return fmt::format("what {} read from a stream is not kept", option.name);
    if (!isFile(option.value))
      return fmt::format("{} {} is not there any more", option.name,
                         shellPath(option.value));
  }
  return "";
}

/// Whether the size of the cache was asked for, not that of contexts.
bool hasKvBudget(const fb::Plan &plan) {
  return std::ranges::count(optionsOf(plan, ""), "--kv-budget",
                            &OptionChange::name) > 0;
}

/// Of a page of every layer's cache.
uint64_t kvPageBytes(const fb::Plan &plan) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < count(plan.kv()); ++i) {
    const fb::Kv *kv = plan.kv()->Get(i);
    if (kv->per_sequence())
      continue;
    bytes += uint64_t(
        moek::kvBytes(moek::KvType(kv->type()), kv->width(), moek::kKvPage));
  }
  return bytes;
}

/// --kv-budget for so many pages.
OptionChange budgetOf(const fb::Plan &plan, int64_t pages) {
  return {"--kv-budget", sizeWord(uint64_t(pages) * kvPageBytes(plan) +
                                  uint64_t(stateBytes(plan)))};
}

/// The weights file of a plan, unless it is the one beside it that moec names,
/// or another plan's: a copy of a plan has the weights of the original.
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
        header && !otherOwner(*header, path, std::string(planPath)).empty();
    return isOfAnother ? "" : path;
  }
  return "";
}
} // namespace

std::string recompileHint(Suggestion suggestion, const fb::Plan &plan,
                          std::string_view planPath,
                          std::span<const OptionChange> changes,
                          std::span<const std::string> modelPaths) {
  std::vector<OptionChange> options = optionsOf(plan, planPath);
  for (const OptionChange &change : changes)
    apply(change, options);
  std::erase_if(options, [](const OptionChange &option) {
    return findRow(option.name)->isDefault(option.value);
  });
  std::ranges::stable_sort(options, {}, [](const OptionChange &option) {
    return findRow(option.name);
  });
  if (std::string lost = whatIsLost(options); !lost.empty())
    return fmt::format("{}, with the options that moec explain lists: no "
                       "command can be suggested, since {}",
                       suggestionText(suggestion), lost);
  std::string model = modelPath(plan, planPath, modelPaths);
  std::string command =
      fmt::format("{}\n{}moec compile {}", suggestionText(suggestion),
                  model.empty() ? kRunWithModelLead : kRunLead,
                  model.empty() ? "MODEL" : shellPath(model));
  for (const OptionChange &option : options) {
    command += fmt::format(" {}", option.name);
    if (OptionKind kind = findRow(option.name)->info.kind;
        kind != OptionKind::Flag)
      command += " " + (kind == OptionKind::Path ? shellPath(option.value)
                                                 : shellWord(option.value));
  }
  if (std::string weights = otherWeights(plan, planPath); !weights.empty())
    command += " --weights-file " + shellPath(weights);
  return command + " -o " + shellPath(planPath);
}

std::string contextHint(const fb::Plan &plan, std::string_view planPath,
                        int64_t tokens,
                        std::span<const std::string> modelPaths) {
  if (plan.trained_context() > 0 && tokens > plan.trained_context())
    return fmt::format("; the model was trained for {}, so the text must be "
                       "shorter",
                       plan.trained_context());
  // Twice as much where the model takes it: a text goes on.
  int64_t roomy = 2 * int64_t(plan.context());
  if (plan.trained_context() > 0)
    roomy = std::min<int64_t>(roomy, plan.trained_context());
  int64_t context = std::max(tokens, roomy);
  std::vector<OptionChange> changes{{"--ctx", std::to_string(context)}};
  if (hasKvBudget(plan) && kvPagesOf(context) * moek::kKvPage > kvRows(plan))
    changes.push_back(budgetOf(plan, kvPagesOf(context)));
  return "; " + recompileHint(Suggestion::LargerContext, plan, planPath,
                              changes, modelPaths);
}

std::string memoryHint(const fb::Plan &plan, std::string_view planPath,
                       uint64_t rest, uint64_t weights, uint64_t available,
                       std::span<const std::string> modelPaths) {
  // All but the cache's pages stays; what is left holds a part of them.
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
  // Where they leave too little, weights will have to be paged.
  if (contextOf(pages) < useful)
    pages = pagesBeside(rest);
  int64_t each = kvPagesOf(plan.context()), context = contextOf(pages);
  int32_t ubatch = 1;
  for (const fb::Phase *phase : *plan.phases())
    if (text(phase->name()) == "prefill" ||
        text(phase->name()) == "streamed_prefill")
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
    return "end other programs, or use a machine with more memory";
  }
  return recompileHint(change, plan, planPath, changes, modelPaths);
}

std::string compileHint(const std::string &modelPath) {
  stdfs::path plan = stdfs::path(modelPath).stem();
  plan += ".fb";
  return suggest(Suggestion::CompileFirst,
                 fmt::format("moec compile {} -o {}", shellPath(modelPath),
                             shellPath(plan.string())));
}

} // namespace moert
