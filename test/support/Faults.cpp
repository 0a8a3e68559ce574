//===- Faults.cpp - A library that makes system calls fail ----------------===//
//
// Preloaded into a tool, it counts the calls that create, change or name files
// in a folder, and makes one of them fail, or kills the process there:
//   FAULT_UNDER  the folder, as an absolute path without links
//   FAULT_AT     the number of the call, from 1; 0 for none
//   FAULT_KIND   eio, enospc: the call fails with this error; kill: the process
//                dies before it; torn: a write writes half, then the process
//                dies
//   FAULT_COUNT  a file that receives the number of calls, at the end
//   FAULT_LOG    a file that receives "sync PATH" and "rename FROM TO" of the
//                calls that succeeded, in order, at the end
//   FAULT_FREE   the number of free bytes that every disk reports
// Opening a file for reading counts too, because compilations read the files
// that they replace.
//
//===----------------------------------------------------------------------===//

#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <mutex>
#include <string>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace {

std::string variable(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

/// Returns the next definition of a function after this library's.
template <typename F> F *real(const char *name) {
  return reinterpret_cast<F *>(dlsym(RTLD_NEXT, name));
}

struct Faults {
  std::string under = variable("FAULT_UNDER"), kind = variable("FAULT_KIND");
  long at = std::atol(variable("FAULT_AT").c_str());
  std::atomic<long> count = 0;

  std::mutex mutex;
  std::string log;

  ~Faults() {
    save(variable("FAULT_COUNT"), std::to_string(count.load()));
    save(variable("FAULT_LOG"), log);
  }

  static void save(const std::string &path, const std::string &text) {
    if (path.empty())
      return;
    if (std::FILE *file = std::fopen(path.c_str(), "w")) {
      std::fputs(text.c_str(), file);
      std::fclose(file);
    }
  }

  void note(const std::string &line) {
    std::lock_guard lock(mutex);
    log += line + "\n";
  }

  bool isUnder(std::string path) const {
    return !under.empty() && (path == under || path.starts_with(under + "/"));
  }

  /// Returns whether this call is the one that fails; kills the process if it
  /// must die.
  bool strikes(bool dies = true) {
    if (++count != at)
      return false;
    if (kind == "kill" || (kind == "torn" && dies))
      std::raise(SIGKILL);
    errno = kind == "enospc" ? ENOSPC : EIO;
    return true;
  }
};

/// Returns the state of this process, whose calls are counted.
Faults &faults() {
  static Faults instance;
  return instance;
}

std::string absolute(int folder, const char *path) {
  if (path[0] == '/')
    return path;
  std::string base = folder == AT_FDCWD
                         ? std::string("/proc/self/cwd")
                         : "/proc/self/fd/" + std::to_string(folder);
  char target[PATH_MAX];
  ssize_t length = ::readlink(base.c_str(), target, sizeof(target));
  return std::string(target, length > 0 ? size_t(length) : 0) + "/" + path;
}

bool strikesPath(const char *path, int folder = AT_FDCWD) {
  return faults().isUnder(absolute(folder, path)) && faults().strikes();
}

std::string pathOf(int fd) {
  char target[PATH_MAX];
  ssize_t length = ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(),
                              target, sizeof(target));
  return std::string(target, length > 0 ? size_t(length) : 0);
}

bool isCounted(int fd) { return faults().isUnder(pathOf(fd)); }

bool strikesFile(int fd) { return isCounted(fd) && faults().strikes(); }

int openAt(int folder, const char *path, int flags, mode_t mode) {
  return strikesPath(path, folder) ? -1
                                   : real<int(int, const char *, int, ...)>(
                                         "openat")(folder, path, flags, mode);
}

/// Executes `write(bytes)`, or the part of it that the fault allows.
template <typename F> ssize_t writeTo(int fd, size_t bytes, F write) {
  if (!isCounted(fd))
    return write(bytes);
  if (!faults().strikes(/*dies=*/false))
    return write(bytes);
  if (faults().kind == "torn") {
    (void)write(bytes / 2);
    std::raise(SIGKILL);
  }
  return -1;
}

mode_t modeOf(int flags, va_list list) {
  return flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;
}

} // namespace

extern "C" {
int statvfs(const char *path, struct statvfs *info) {
  int failed = real<int(const char *, struct statvfs *)>("statvfs")(path, info);
  if (std::string bytes = variable("FAULT_FREE"); !failed && !bytes.empty())
    info->f_bavail = std::strtoull(bytes.c_str(), nullptr, 10) / info->f_frsize;
  return failed;
}

int open(const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  mode_t mode = modeOf(flags, list);
  va_end(list);
  return openAt(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  mode_t mode = modeOf(flags, list);
  va_end(list);
  return openAt(AT_FDCWD, path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  mode_t mode = modeOf(flags, list);
  va_end(list);
  return openAt(folder, path, flags, mode);
}

ssize_t write(int fd, const void *data, size_t bytes) {
  return writeTo(fd, bytes, [&](size_t part) {
    return real<ssize_t(int, const void *, size_t)>("write")(fd, data, part);
  });
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at) {
  return writeTo(fd, bytes, [&](size_t part) {
    return real<ssize_t(int, const void *, size_t, off_t)>("pwrite")(fd, data,
                                                                     part, at);
  });
}

ssize_t pwrite64(int fd, const void *data, size_t bytes, off_t at) {
  return pwrite(fd, data, bytes, at);
}

int fsync(int fd) {
  if (strikesFile(fd))
    return -1;
  int result = real<int(int)>("fsync")(fd);
  if (result == 0 && isCounted(fd))
    faults().note("sync " + pathOf(fd));
  return result;
}

int fdatasync(int fd) {
  return strikesFile(fd) ? -1 : real<int(int)>("fdatasync")(fd);
}

int fallocate(int fd, int mode, off_t at, off_t bytes) {
  return strikesFile(fd) ? -1
                         : real<int(int, int, off_t, off_t)>("fallocate")(
                               fd, mode, at, bytes);
}

int fallocate64(int fd, int mode, off_t at, off_t bytes) {
  return fallocate(fd, mode, at, bytes);
}

int ftruncate(int fd, off_t bytes) {
  return strikesFile(fd) ? -1 : real<int(int, off_t)>("ftruncate")(fd, bytes);
}

int ftruncate64(int fd, off_t bytes) { return ftruncate(fd, bytes); }

int fchmod(int fd, mode_t mode) {
  return strikesFile(fd) ? -1 : real<int(int, mode_t)>("fchmod")(fd, mode);
}

int fchown(int fd, uid_t user, gid_t group) {
  return strikesFile(fd)
             ? -1
             : real<int(int, uid_t, gid_t)>("fchown")(fd, user, group);
}

int rename(const char *from, const char *to) {
  if (strikesPath(to))
    return -1;
  int result = real<int(const char *, const char *)>("rename")(from, to);
  if (std::string path = absolute(AT_FDCWD, to);
      result == 0 && faults().isUnder(path))
    faults().note("rename " + absolute(AT_FDCWD, from) + " " + path);
  return result;
}

int renameat2(int fromFolder, const char *from, int toFolder, const char *to,
              unsigned flags) {
  return strikesPath(to, toFolder)
             ? -1
             : real<int(int, const char *, int, const char *, unsigned)>(
                   "renameat2")(fromFolder, from, toFolder, to, flags);
}

int link(const char *from, const char *to) {
  return strikesPath(to)
             ? -1
             : real<int(const char *, const char *)>("link")(from, to);
}

int linkat(int fromFolder, const char *from, int toFolder, const char *to,
           int flags) {
  return strikesPath(to, toFolder)
             ? -1
             : real<int(int, const char *, int, const char *, int)>("linkat")(
                   fromFolder, from, toFolder, to, flags);
}

int unlink(const char *path) {
  return strikesPath(path) ? -1 : real<int(const char *)>("unlink")(path);
}

int unlinkat(int folder, const char *path, int flags) {
  return strikesPath(path, folder) ? -1
                                   : real<int(int, const char *, int)>(
                                         "unlinkat")(folder, path, flags);
}

int mkdir(const char *path, mode_t mode) {
  return strikesPath(path)
             ? -1
             : real<int(const char *, mode_t)>("mkdir")(path, mode);
}

} // extern "C"
