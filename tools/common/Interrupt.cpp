#include "tools/common/Interrupt.h"

#include <csignal>

namespace moetool {

namespace {
/// A signal handler can reach nothing but a global.
std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free,
              "a signal handler may set it");
} // namespace

const std::atomic<bool> *catchInterrupt() {
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted = true; };
  // The second Ctrl-C finds the default action: it ends the process.
  action.sa_flags = SA_RESETHAND;
  ::sigaction(SIGINT, &action, nullptr);
  return &interrupted;
}

} // namespace moetool
