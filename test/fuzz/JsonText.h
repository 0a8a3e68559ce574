//===- JsonText.h - Whether a text is JSON ----------------------*- C++ -*-===//

#ifndef MOE_TEST_FUZZ_JSONTEXT_H
#define MOE_TEST_FUZZ_JSONTEXT_H

#include <nlohmann/json.hpp>
#include <string>

namespace moefuzz {

/// Numbers may be larger than a double.
inline bool isJson(const std::string &text) {
  try {
    return !nlohmann::ordered_json::parse(text).is_discarded();
  } catch (const nlohmann::ordered_json::out_of_range &) {
    return true;
  } catch (const nlohmann::ordered_json::exception &) {
    return false;
  }
}

} // namespace moefuzz

#endif // MOE_TEST_FUZZ_JSONTEXT_H
