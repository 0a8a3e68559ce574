#include "runtime/device/cpu/QueueTime.h"

#include <cstdio>
#include <fcntl.h>
#include <unistd.h>

namespace moert {

QueueTime::~QueueTime() {
  if (int file = file_.load(); file >= 0)
    ::close(file);
}

void QueueTime::followThisThread() {
  int thread = ::gettid();
  if (thread == thread_)
    return;
  thread_ = thread;
  int before = file_.exchange(
      ::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC));
  if (before >= 0)
    ::close(before);
}

namespace {
/// A line of text from /proc; empty if there is none.
struct Line {
  explicit Line(int file) {
    ssize_t length =
        file < 0 ? -1 : ::pread(file, text, sizeof(text) - 1, /*offset=*/0);
    text[length > 0 ? length : 0] = '\0';
  }
  char text[96];
};
} // namespace

double QueueTime::seconds() const {
  const Line line(file_.load(std::memory_order_acquire));
  // Fields: nanoseconds on a CPU, nanoseconds waiting for one, number of
  // slices.
  unsigned long long ran = 0, waited = 0;
  return std::sscanf(line.text, "%llu %llu", &ran, &waited) == 2
             ? double(waited) * 1e-9
             : 0;
}

FreeCpus::FreeCpus()
    : file_(::open("/proc/loadavg", O_RDONLY | O_CLOEXEC)),
      cpus_(int(::sysconf(_SC_NPROCESSORS_ONLN))) {}

FreeCpus::~FreeCpus() {
  if (file_ >= 0)
    ::close(file_);
}

double FreeCpus::count() const {
  const Line line(file_);
  // Fields: averages of 1, 5 and 15 minutes, then threads that can run and all
  // threads, as in "0.20 0.18 0.12 2/80 1234".
  int runnable = 0;
  return std::sscanf(line.text, "%*f %*f %*f %d/", &runnable) == 1
             ? double(cpus_ - runnable)
             : 0;
}

} // namespace moert
