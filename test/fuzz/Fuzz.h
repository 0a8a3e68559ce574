//===- Fuzz.h - What fuzz targets share -------------------------*- C++ -*-===//
//
// A target defines LLVMFuzzerTestOneInput and ends the process where something
// does not hold. With clang's -fsanitize=fuzzer, libFuzzer drives it; otherwise
// Replay.cpp does.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_FUZZ_FUZZ_H
#define MOE_TEST_FUZZ_FUZZ_H

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

namespace moefuzz {

/// Ends the process, with a message, unless `holds`.
inline void require(bool holds, std::string_view what,
                    std::string_view detail = {}) {
  if (holds)
    return;
  std::string line = "violated: ";
  line.append(what).append(": ").append(detail).append("\n");
  std::fputs(line.c_str(), stderr);
  std::abort();
}

/// Takes an input apart from front to back. At the end, numbers are 0 and texts
/// empty.
class Input {
public:
  Input(const uint8_t *data, size_t size)
      : rest_(reinterpret_cast<const char *>(data), size) {}

  uint8_t byte() {
    if (rest_.empty())
      return 0;
    const auto first = uint8_t(rest_.front());
    rest_.remove_prefix(1);
    return first;
  }
  /// The text before the next `end`, which is removed, or all that is left.
  std::string_view textBefore(char end) {
    const size_t length = rest_.find(end);
    std::string_view text = rest_.substr(0, length);
    rest_.remove_prefix(length == rest_.npos ? rest_.size() : length + 1);
    return text;
  }
  std::string_view rest() const { return rest_; }

private:
  std::string_view rest_;
};

} // namespace moefuzz

#endif // MOE_TEST_FUZZ_FUZZ_H
