//===- JsonPlace.h - Positions of errors in JSON files ----------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_JSONPLACE_H
#define MOE_RUNTIME_BASE_JSONPLACE_H

#include "runtime/base/Status.h"

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace moert {

/// A value of a JSON text, identified by the keys and indices that lead to it,
/// for messages that name its position. File name and text must outlive it.
class JsonPlace {
public:
  /// The root of `json`, which is the content of `file`.
  JsonPlace(std::string_view file, std::string_view json)
      : file_(file), json_(json) {}

  JsonPlace operator/(std::string_view key) const { return with(key); }
  JsonPlace operator/(size_t index) const { return with(index); }

  /// Returns InvalidFile with "file:line:column: message". Line and column
  /// count from 1, columns in bytes. The position is that of a member's key, of
  /// an element or of the root; for a missing member, that of the object that
  /// should have it.
  Status error(std::string_view message) const;

private:
  using Step = std::variant<std::string_view, size_t>;
  JsonPlace with(Step step) const;

  std::string_view file_, json_;
  std::vector<Step> steps_;
};

/// Most bytes of memory that the values of a JSON text take. Short values take
/// sixteen times what they take in the text.
inline constexpr size_t kMostJsonBytes = size_t(176) << 20;

/// Empties a value, so that to destroy it takes no more memory: the library
/// would first collect all values of a long list. Nested as deep as parseJson()
/// allows.
void takeApart(nlohmann::ordered_json &json);

/// Parses JSON with // and /* */ comments, whose objects and lists may be
/// nested `depth` deep, objects have 5000 members, and values together take
/// kMostJsonBytes. While it parses it takes little more than they do. An
/// escaped surrogate without its other half is U+FFFD. Takes time in proportion
/// to the text. Fails with InvalidFile and a position.
StatusOr<nlohmann::ordered_json> parseJson(std::string_view file,
                                           std::string_view json, int depth);

} // namespace moert

#endif // MOE_RUNTIME_BASE_JSONPLACE_H
