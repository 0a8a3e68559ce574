#include "tools/common/Interrupt.h"

#include "runtime/base/Temporaries.h"

#include <csignal>

namespace moetool {

namespace {
/// A signal handler can only use a global.
std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free,
              "a signal handler may set it");
} // namespace

const std::atomic<bool> *catchInterrupt() {
  struct sigaction action = {};
  action.sa_handler = [](int signal) {
    if (interrupted.exchange(true))
      moert::endBySignal(signal);
  };
  ::sigaction(SIGINT, &action, nullptr);
  return &interrupted;
}

bool takeInterrupt() { return interrupted.exchange(false); }

} // namespace moetool
