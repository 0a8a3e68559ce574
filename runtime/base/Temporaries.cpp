#include "runtime/base/Temporaries.h"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <memory>
#include <random>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace moert {

namespace {
constexpr size_t kDigits = 16;
constexpr std::string_view kSuffix = ".tmp";

/// Returns the part of the name before the digits. It uses at most 100 bytes of
/// `name`, which fits the 143 bytes of the file systems with the shortest
/// names.
std::string prefixOf(const std::string &name) {
  size_t length = std::min<size_t>(name.size(), 100);
  // Some file systems refuse incomplete UTF-8 characters.
  while (length < name.size() && length > 0 &&
         (static_cast<unsigned char>(name[length]) & 0xc0) == 0x80)
    --length;
  return "." + name.substr(0, length) + ".moe-";
}

bool isTemporaryOf(std::string_view entry, std::string_view prefix) {
  return entry.size() == prefix.size() + kDigits + kSuffix.size() &&
         entry.starts_with(prefix) && entry.ends_with(kSuffix) &&
         entry.substr(prefix.size(), kDigits)
                 .find_first_not_of("0123456789abcdef") == entry.npos;
}

/// Removes a file whose writer was killed, so that nobody holds its lock.
void removeIfStale(int folder, const char *name) {
  struct stat seen, info;
  auto isOurs = [](const struct stat &file) {
    return S_ISREG(file.st_mode) && file.st_uid == ::geteuid() &&
           file.st_nlink == 1;
  };
  if (::fstatat(folder, name, &seen, AT_SYMLINK_NOFOLLOW) != 0 || !isOurs(seen))
    return;
  int fd = ::openat(folder, name,
                    O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (fd < 0)
    return;
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0 && ::fstat(fd, &info) == 0 &&
      isOurs(info) && info.st_ino == seen.st_ino && info.st_dev == seen.st_dev)
    ::unlinkat(folder, name, 0);
  ::close(fd);
}
} // namespace

std::string temporaryName(const std::string &name) {
  // Uses getrandom or similar, so names of processes differ.
  std::random_device random;
  uint64_t digits = uint64_t(random()) << 32 | random();
  return fmt::format("{}{:016x}{}", prefixOf(name), digits, kSuffix);
}

void removeStaleTemporaries(const std::string &folder,
                            const std::string &name) {
  std::unique_ptr<DIR, int (*)(DIR *)> listing(::opendir(folder.c_str()),
                                               ::closedir);
  if (!listing)
    return;
  std::string prefix = prefixOf(name);
  while (const dirent *entry = ::readdir(listing.get()))
    if (isTemporaryOf(entry->d_name, prefix))
      removeIfStale(::dirfd(listing.get()), entry->d_name);
}

/// A file to remove, or a free entry. Entries are reused but never freed,
/// because a signal handler may be walking the list.
struct RemovedOnSignal::Entry {
  std::atomic<char *> path;
  Entry *next;
};

namespace {
/// A signal handler can only use a global.
std::atomic<RemovedOnSignal::Entry *> entries = nullptr;
static_assert(decltype(entries)::is_always_lock_free,
              "a signal handler may read it");
} // namespace

RemovedOnSignal::RemovedOnSignal(const std::string &path)
    : path_(::strdup(path.c_str())) {
  for (Entry *entry = entries; entry; entry = entry->next) {
    char *free = nullptr;
    if (entry->path.compare_exchange_strong(free, path_)) {
      entry_ = entry;
      return;
    }
  }
  entry_ = new Entry{path_, entries};
  while (!entries.compare_exchange_weak(entry_->next, entry_))
    ;
}

RemovedOnSignal::RemovedOnSignal(RemovedOnSignal &&other) noexcept {
  *this = std::move(other);
}

RemovedOnSignal &RemovedOnSignal::operator=(RemovedOnSignal &&other) noexcept {
  std::swap(entry_, other.entry_);
  std::swap(path_, other.path_);
  return *this;
}

RemovedOnSignal::~RemovedOnSignal() {
  // If the exchange fails, a handler has taken the path and the process is
  // ending.
  if (char *mine = path_;
      entry_ && entry_->path.compare_exchange_strong(mine, nullptr))
    std::free(path_);
}

void removeTemporaries() {
  for (auto *entry = entries.load(); entry; entry = entry->next)
    if (const char *path = entry->path.exchange(nullptr))
      ::unlink(path);
}

void endBySignal(int signal) {
  removeTemporaries();
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  ::sigaction(signal, &action, nullptr);
  (void)::raise(signal);
  // The signal stays pending while it is blocked, as it is in its handler.
  sigset_t own;
  ::sigemptyset(&own);
  ::sigaddset(&own, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &own, nullptr);
  // The system does not end a container's first process by it.
  ::_exit(128 + signal);
}

void installCleanupHandlers() {
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action = {};
    if (::sigaction(signal, nullptr, &action) != 0 ||
        action.sa_handler != SIG_DFL)
      continue; // A program under nohup ignores the signal.
    action = {};
    action.sa_handler = endBySignal;
    ::sigaction(signal, &action, nullptr);
  }
}

} // namespace moert
