#include "tools/moert/ModelPlan.h"

#include "runtime/base/ContentHash.h"
#include "runtime/base/InputFile.h"
#include "runtime/base/ShellCommand.h"
#include "runtime/base/UserCache.h"
#include "runtime/plan/Plan.h"
#include "tools/common/Output.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
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

/// Weights of larger models are not copied into a packed file, unless the user
/// compiles the model.
constexpr uint64_t kLargestPacked = uint64_t(8) << 30;

bool isGguf(const std::string &path) {
  auto file = InputFile::open(path);
  char magic[4];
  return file && file->size() >= sizeof(magic) &&
         file->readAt(0, magic, sizeof(magic)).isOk() &&
         std::memcmp(magic, "GGUF", sizeof(magic)) == 0;
}

/// What a model is compiled for.
struct PlanWish {
  int32_t sequences = 1;
  int64_t context = 0; ///< 0: a ladder of those that fit.
};

/// Returns the path of a model's plan in the cache; it changes with the file.
StatusOr<std::string> cachedPlan(const std::string &model,
                                 const PlanWish &wish) {
  std::string cache = userCacheFolder();
  if (cache.empty())
    return Status(StatusCode::Io, "there is no folder for plans, since neither "
                                  "HOME nor XDG_CACHE_HOME is set")
        .suggesting(
            {Suggestion::CompileFirst,
             CompileCommand{.model = model, .options = {}, .output = ""}});
  std::error_code error;
  stdfs::path path = stdfs::canonical(model, error);
  auto time = stdfs::last_write_time(path, error).time_since_epoch().count();
  std::string key = fmt::format("{}\n{}\n{}\n{}", path.string(), time,
                                stdfs::file_size(path, error), MOE_VERSION);
  key += fmt::format("\n{}\n{}", wish.sequences, wish.context);
  uint64_t hash = hash64(
      {std::span(reinterpret_cast<const uint8_t *>(key.data()), key.size())});
  stdfs::path folder = stdfs::path(cache) / "plans";
  stdfs::create_directories(folder, error);
  if (error)
    return Status(StatusCode::Io, folder.string() + ": " + error.message());
  return (folder / fmt::format("{}-{:016x}.fb", path.stem().string(), hash))
      .string();
}

/// Returns whether the plan exists, is undamaged, can run on this machine and
/// has a rung for so many tokens.
bool isUsable(const std::string &plan, int64_t context) {
  if (::access(plan.c_str(), F_OK) != 0)
    return false;
  auto loaded = Plan::load(plan);
  if (!loaded || !loaded->checkMachine().isOk())
    return false;
  // The last rung has the longest context.
  return int64_t(loaded->rung(std::max(1u, loaded->rungs())).context()) >=
         context;
}

/// Runs moec with this process's streams. If it fails, its own messages tell
/// why.
Status compile(const std::string &model, const std::string &plan,
               const PlanWish &wish) {
  std::error_code error;
  bool isLarge = stdfs::file_size(model, error) > kLargestPacked;
  std::vector<std::string> words = {"moec", "compile", model, "-o", plan};
  if (isLarge)
    words.insert(words.end(), {"--weights", "reference"});
  if (wish.sequences > 1)
    words.insert(words.end(), {"--sequences", std::to_string(wish.sequences)});
  if (wish.context > 0)
    words.insert(words.end(), {"--ctx", std::to_string(wish.context)});
  else
    words.insert(words.end(), {"--ladder", "auto"});
  std::vector<char *> argv;
  for (std::string &word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  moetool::note("compiling {} for this machine; the plan is kept as {}\n",
                shellPath(model), shellPath(plan));
  if (isLarge)
    moetool::note("note: its weights stay in the model file; moec compile {} "
                  "packs them, which decodes faster and takes as much of the "
                  "disk again\n",
                  shellPath(model));
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

/// Returns the number after -c or --ctx; 0 if there is none, or something else,
/// which the command then says.
int64_t contextAmong(const std::vector<std::string> &words) {
  auto number = [](std::string_view text) {
    int64_t value = 0;
    auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), value);
    const bool isAll = error == std::errc() && end == text.data() + text.size();
    return isAll ? std::max<int64_t>(0, value) : 0;
  };
  for (size_t i = 0; i < words.size(); ++i) {
    if ((words[i] == "-c" || words[i] == "--ctx") && i + 1 < words.size())
      return number(words[i + 1]);
    if (words[i].starts_with("--ctx="))
      return number(std::string_view(words[i]).substr(6));
  }
  return 0;
}
} // namespace

StatusOr<std::string> planOfModel(const std::string &file, int32_t sequences,
                                  int64_t context) {
  if (!isGguf(file))
    return file;
  PlanWish wish{.sequences = sequences};
  MOE_ASSIGN_OR_RETURN(std::string plan, cachedPlan(file, wish));
  if (isUsable(plan, context))
    return plan;
  if (context > 0) {
    wish.context = context;
    MOE_ASSIGN_OR_RETURN(plan, cachedPlan(file, wish));
    if (isUsable(plan, context))
      return plan;
  }
  MOE_RETURN_IF_ERROR(compile(file, plan, wish));
  return plan;
}

StatusOr<std::vector<std::string>> withPlan(std::vector<std::string> words) {
  auto isName = [](const std::string &word) {
    return word == "-m" || word == "--model";
  };
  if (words.size() > 1 && isName(words.front()))
    words.erase(words.begin());
  if (words.empty() || words.front().starts_with('-'))
    return words;
  std::error_code error;
  std::string file = words.front();
  bool looksLikeFile = file.ends_with(".gguf") || file.ends_with(".fb");
  if (!stdfs::is_regular_file(file, error)) {
    if (!looksLikeFile)
      return words;
    MOE_RETURN_IF_ERROR(InputFile::open(file).status());
  }
  MOE_ASSIGN_OR_RETURN(words.front(),
                       planOfModel(file, 1, contextAmong(words)));
  words.insert(words.begin(), hasPrompt(words) ? "run" : "chat");
  return words;
}

} // namespace moert
