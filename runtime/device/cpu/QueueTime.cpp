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

double QueueTime::seconds() const {
  char text[96];
  int file = file_.load(std::memory_order_acquire);
  ssize_t length =
      file < 0 ? -1 : ::pread(file, text, sizeof(text) - 1, /*offset=*/0);
  if (length <= 0)
    return 0;
  text[length] = '\0';
  // Fields: nanoseconds on a CPU, nanoseconds waiting for one, number of
  // slices.
  unsigned long long ran = 0, waited = 0;
  return std::sscanf(text, "%llu %llu", &ran, &waited) == 2
             ? double(waited) * 1e-9
             : 0;
}

} // namespace moert
