// Drives a fuzz target without libFuzzer: first the files of a corpus as they
// are, then changed ones, in the same order in every run.
//
//   moe_fuzz_NAME [--runs=N] [--seconds=S] [--seed=K] FILE|FOLDER...
//
// Runs N changed inputs, by default none, or as many as fit into S seconds. The
// input that ends the process, takes more than 20 seconds of processor time, or
// more than 384 MiB of memory, is left in moe_fuzz_NAME.failed in the current
// folder. Sanitizers take memory of their own: with them, it is not limited.
#include "test/fuzz/Fuzz.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <random>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>
#include <vector>

namespace fs = std::filesystem;

// A function of AddressSanitizer, where that is linked.
extern "C" __attribute__((weak)) void
__sanitizer_set_death_callback(void (*callback)());

namespace {
/// Processor time that an input may take: machines may be busy with other
/// things.
constexpr time_t kMostSeconds = 20;
/// Limit for the private memory of the process.
constexpr rlim_t kMostMemory = rlim_t(384) << 20;
constexpr size_t kMostBytes = 1 << 16;

std::string current; ///< The input that runs now.
std::string failed;  ///< File for an input that fails.

/// Calls only functions that a signal handler may call.
void keepInput() {
  const int file =
      ::open(failed.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0 || ::write(file, current.data(), current.size()) < 0)
    return;
  constexpr char text[] = "the input is left in a file *.failed\n";
  (void)!::write(STDERR_FILENO, text, sizeof text - 1);
}

void onSignal(int signal) {
  keepInput();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

/// Raises SIGPROF after so much processor time of the process; 0: no longer.
void limitTime(time_t seconds) {
  const itimerval limit = {.it_interval = {}, .it_value = {seconds, 0}};
  ::setitimer(ITIMER_PROF, &limit, nullptr);
}

/// Ends the process when it takes too much memory, even if it catches
/// bad_alloc.
void limitMemory() {
  const rlimit limit = {kMostMemory, kMostMemory};
  ::setrlimit(RLIMIT_DATA, &limit);
  std::set_new_handler([] {
    constexpr char text[] = "an input takes too much memory\n";
    (void)!::write(STDERR_FILENO, text, sizeof text - 1);
    std::abort();
  });
}

void runOne(std::string input) {
  current = std::move(input);
  limitTime(kMostSeconds);
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t *>(current.data()),
                         current.size());
  limitTime(0);
}

/// Changes inputs: bits, bytes, numbers, pieces of the input and of others.
class Changer {
public:
  Changer(const std::vector<std::string> &corpus, uint32_t seed)
      : corpus_(corpus), random_(seed) {}

  std::string next() {
    std::string text = pick();
    const size_t changes = size_t(1) << below(5);
    for (size_t i = 0; i < changes; ++i)
      change(text);
    text.resize(std::min(text.size(), kMostBytes));
    return text;
  }

private:
  size_t below(size_t end) { return size_t(random_() % end); }
  const std::string &pick() { return corpus_[below(corpus_.size())]; }

  void change(std::string &text) {
    const size_t at = text.empty() ? 0 : below(text.size());
    static constexpr std::string_view kPieces[] = {
        "\"",       "{",    "}",          "[",       "]",       "(",  "\\",
        "\n",       "\r\n", "0",          "1",       "-1",      "|",  "*",
        "{0,4096}", "::=",  "null",       "\xff",    "{%",      "%}", "{{",
        "}}",       "1e99", "4294967296", "\\u0000", "\xe2\x82"};
    switch (below(9)) {
    case 0:
      if (!text.empty())
        text[at] ^= char(1 << below(8));
      break;
    case 1:
      if (!text.empty())
        text[at] = char(below(256));
      break;
    case 2:
      text.insert(at, kPieces[below(std::size(kPieces))]);
      break;
    case 3:
      text.erase(at, 1 + below(below(4) == 0 ? 64 : 4));
      break;
    case 4: { // Inserts a piece of another input, or of this one.
      const std::string other = pick();
      if (!other.empty())
        text.insert(at, other.substr(below(other.size()), 1 + below(64)));
      break;
    }
    case 5:
      if (!text.empty())
        text.insert(at, text.substr(below(text.size()), 1 + below(32)));
      break;
    case 6: { // Replaces the end by that of another input.
      const std::string &other = pick();
      text.resize(at);
      text += other.substr(std::min(at, other.size()));
      break;
    }
    case 7: // Inserts deep nesting, long names or long lists.
      if (below(8) == 0 && !text.empty())
        text.insert(at, std::string(below(below(16) == 0 ? kMostBytes : 3000),
                                    text[at]));
      if (below(64) == 0 && !text.empty())
        repeat(text, at);
      break;
    case 8: { // Repeats a part by a grammar's {0,60} or {0,4096}.
      const size_t length = below(std::min<size_t>(text.size() - at, 32) + 1);
      text.insert(at + length, below(2) == 0 ? "){0,60}" : "){0,4096}");
      text.insert(at, "(");
      break;
    }
    }
  }

  /// Repeats the text between a comma and the next one.
  void repeat(std::string &text, size_t at) {
    const size_t begin = text.find(',', at);
    if (begin == text.npos)
      return;
    const std::string item =
        text.substr(begin, text.find(',', begin + 1) - begin);
    std::string items;
    const size_t most = below(kMostBytes / 2);
    while (items.size() + text.size() < most)
      items += item;
    text.insert(begin, items);
  }

  const std::vector<std::string> &corpus_;
  std::mt19937 random_;
};

std::string contentOf(const fs::path &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
} // namespace

int main(int argc, char **argv) {
  failed = fs::path(argv[0]).filename().string() + ".failed";
  uint64_t runs = 0, seconds = 0, seed = 1;
  std::vector<fs::path> paths;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    auto number = [&](std::string_view name, uint64_t &value) {
      if (!argument.starts_with(name))
        return false;
      value = std::strtoull(argv[i] + name.size(), nullptr, 10);
      return true;
    };
    if (number("--runs=", runs) || number("--seconds=", seconds) ||
        number("--seed=", seed))
      continue;
    if (!fs::exists(argument)) {
      std::fprintf(stderr, "%s: there is no such file\n", argv[i]);
      return 2;
    }
    if (fs::is_directory(argument))
      for (const auto &entry : fs::directory_iterator(argument))
        paths.push_back(entry.path());
    else
      paths.emplace_back(argument);
  }
  std::ranges::sort(paths);

  if (__sanitizer_set_death_callback)
    __sanitizer_set_death_callback(keepInput);
  std::signal(SIGABRT, onSignal);
  std::signal(SIGPROF, onSignal);
  if (!__sanitizer_set_death_callback) {
    limitMemory();
    // A stack of its own: the input may have filled the other one.
    static char room[1 << 16];
    stack_t own = {};
    own.ss_sp = room;
    own.ss_size = sizeof room;
    ::sigaltstack(&own, nullptr);
    struct sigaction action = {};
    action.sa_handler = onSignal;
    action.sa_flags = SA_ONSTACK;
    for (int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE})
      ::sigaction(signal, &action, nullptr);
  }

  std::vector<std::string> corpus;
  for (const fs::path &path : paths) {
    corpus.push_back(contentOf(path));
    runOne(corpus.back());
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "no inputs\n");
    return 2;
  }
  Changer changer(corpus, uint32_t(seed));
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  uint64_t done = 0;
  while (done < runs ||
         (seconds > 0 && std::chrono::steady_clock::now() < end)) {
    runOne(changer.next());
    ++done;
  }
  std::printf("%zu inputs and %llu changed ones: ok\n", corpus.size(),
              static_cast<unsigned long long>(done));
  return 0;
}
