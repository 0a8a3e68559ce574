#include "tools/common/Progress.h"

#include "runtime/base/Text.h"
#include "tools/common/Output.h"

#include <fmt/format.h>

namespace moetool {

void Progress::update(uint64_t done, uint64_t total) {
  using namespace std::chrono_literals;
  if (!stderrIsTerminal() || total == 0)
    return;
  auto now = Clock::now();
  if (now - start_ < 500ms || now - drawn_ < 100ms)
    return;
  drawn_ = now;
  visible_ = true;
  double seconds = std::chrono::duration<double>(now - start_).count();
  double rate = double(done) / seconds;
  double left = rate > 0 ? double(total - done) / rate : 0;
  constexpr int width = 20;
  int filled = int(double(done) / double(total) * width);
  redrawLine(fmt::format(
      "{}  {:3.0f}% [{}{}] {} of {}, {}/s, {:.0f} s left", what_,
      100.0 * double(done) / double(total), std::string(filled, '#'),
      std::string(width - filled, '-'), moert::humanBytes(double(done)),
      moert::humanBytes(double(total)), moert::humanBytes(rate), left));
}

void Progress::finish() {
  if (visible_)
    redrawLine("");
  visible_ = false;
}

} // namespace moetool
