#include "tools/moert/ModelPlan.h"

#include "kernels/Registry.h"
#include "runtime/base/InputFile.h"
#include "runtime/base/ShellCommand.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/Recompile.h"
#include "tools/common/Output.h"
#include "tools/moert/KeptPlans.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace moert {

namespace {
namespace stdfs = std::filesystem;

/// Whether a model with these options becomes a ladder of the contexts that fit
/// this machine: unless they say how large its cache is.
bool isLadderOf(const std::vector<std::string> &options) {
  return std::ranges::none_of(options, [](const std::string &word) {
    return word == "--ladder" || word == "--kv-budget" || word == "--ctx";
  });
}

/// Runs moec with this process's streams. If it fails, its own messages tell
/// why.
Status compile(const std::string &model, const std::string &plan,
               const PlanWish &wish, const std::vector<std::string> &options,
               const std::string &command) {
  auto isGiven = [&](std::string_view name) {
    return std::ranges::find(options, name) != options.end();
  };
  std::vector<std::string> words = {"moec"};
  if (std::optional<moek::Isa> most = moek::hostIsaLimit())
    words.insert(words.end(), {"--isa", std::string(moek::isaName(*most))});
  words.insert(words.end(),
               {"compile", model, "-o", plan, "--called-by", command});
  // The model is on the disk once.
  if (!isGiven("--weights"))
    words.insert(words.end(), {"--weights", "load"});
  words.insert(words.end(), options.begin(), options.end());
  if (wish.sequences > 1 && !isGiven("--sequences"))
    words.insert(words.end(), {"--sequences", std::to_string(wish.sequences)});
  if (wish.context > 0)
    words.insert(words.end(), {"--ctx", std::to_string(wish.context)});
  else if (isLadderOf(options))
    words.insert(words.end(), {"--ladder", "auto"});
  std::vector<char *> argv;
  for (std::string &word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  moetool::note("compiling {} for this machine; the plan is kept as {}\n",
                shellPath(model), shellPath(plan));
  std::string program = moetool::toolPath("moec");
  pid_t child = 0;
  int failed = ::posix_spawnp(&child, program.c_str(), nullptr, nullptr,
                              argv.data(), environ);
  if (failed != 0)
    return Status(StatusCode::Io,
                  fmt::format("cannot start moec, which compiles models: {}; "
                              "compile {} where it is installed",
                              std::strerror(failed), shellPath(model)));
  int state = 0;
  while (::waitpid(child, &state, 0) < 0 && errno == EINTR)
    ;
  if (WIFEXITED(state) && WEXITSTATUS(state) == 0)
    return Status::ok();
  int code = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
  bool isOurs = code > 0 && code <= int(StatusCode::WrongMachine);
  return Status(isOurs ? StatusCode(code) : StatusCode::Cancelled,
                fmt::format("moec did not compile {}", shellPath(model)));
}

/// Returns whether the arguments contain a prompt, so that moert run takes
/// them.
bool hasPrompt(const std::vector<std::string> &words) {
  return std::ranges::any_of(words, [](const std::string &word) {
    return word == "-p" || word == "--prompt" ||
           word.starts_with("--prompt=") || word == "-f" || word == "--file" ||
           word.starts_with("--file=");
  });
}

} // namespace

bool isModel(const std::string &path) {
  auto file = InputFile::open(path);
  char magic[4];
  return file && file->size() >= sizeof(magic) &&
         file->readAt(0, magic, sizeof(magic)).isOk() &&
         std::memcmp(magic, "GGUF", sizeof(magic)) == 0;
}

StatusOr<std::string> planOfModel(const std::string &file, const PlanWish &wish,
                                  const CompileFlags &options,
                                  const std::string &command) {
  if (!isModel(file)) {
    if (options.isEmpty())
      return file;
    auto plan = Plan::load(file);
    if (!plan)
      return plan.status();
    std::vector<OptionChange> changes;
    for (const auto &[info, value] : options.given())
      changes.push_back({std::string(longName(info)), value});
    return Status(StatusCode::Usage,
                  fmt::format("{}: {} has been compiled already",
                              options.firstName(), shellPath(file)))
        .suggesting(recompile(Suggestion::WithOptions, plan->table(), file,
                              std::move(changes)));
  }
  MOE_ASSIGN_OR_RETURN(PlanOrigin origin, originOf(file));
  origin.options = options.words();
  origin.optionsKey = options.key();
  MOE_ASSIGN_OR_RETURN(std::string plan,
                       findKept(origin, wish.sequences, wish.context));
  if (!plan.empty())
    return plan;
  MOE_ASSIGN_OR_RETURN(plan, pathToKeep(origin, wish.sequences, wish.context));
  MOE_RETURN_IF_ERROR(compile(file, plan, wish, origin.options, command));
  MOE_RETURN_IF_ERROR(
      keep(plan, origin, wish.sequences, /*isLadder=*/wish.context == 0));
  return plan;
}

StatusOr<std::vector<std::string>> withCommand(std::vector<std::string> words) {
  auto isName = [](const std::string &word) {
    return word == "-m" || word == "--model";
  };
  if (words.size() > 1 && isName(words.front()))
    words.erase(words.begin());
  if (words.empty() || words.front().starts_with('-'))
    return words;
  std::error_code error;
  const std::string &file = words.front();
  if (!stdfs::exists(file, error)) {
    if (!file.ends_with(".gguf") && !file.ends_with(".fb"))
      return words;
    MOE_RETURN_IF_ERROR(InputFile::open(file).status());
  }
  words.insert(words.begin(), hasPrompt(words) ? "run" : "chat");
  return words;
}

} // namespace moert
