//===- JsonPlace.h - Where in a JSON file an error is -----------*- C++ -*-===//

#ifndef MOE_RUNTIME_BASE_JSONPLACE_H
#define MOE_RUNTIME_BASE_JSONPLACE_H

#include "runtime/base/Status.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace moert {

/// A value of a JSON text by the keys and indices that lead to it, for messages
/// that say where it stands. Names and texts outlive it.
class JsonPlace {
public:
  /// The root of `json`, which `file` names.
  JsonPlace(std::string_view file, std::string_view json)
      : file_(file), json_(json) {}

  JsonPlace operator/(std::string_view key) const { return with(key); }
  JsonPlace operator/(size_t index) const { return with(index); }

  /// InvalidFile: "file:line:column: message", both counted from 1, columns in
  /// bytes. The place is that of a member's key, of an element or the root; for
  /// a member that is missing, of the object that should have it.
  Status error(std::string_view message) const;

private:
  using Step = std::variant<std::string_view, size_t>;
  JsonPlace with(Step step) const;

  std::string_view file_, json_;
  std::vector<Step> steps_;
};

/// Parses JSON with // and /* */ comments, of objects and lists at most
/// `depth` deep. Fails with InvalidFile at a line and column.
StatusOr<nlohmann::ordered_json> parseJson(std::string_view file,
                                           std::string_view json, int depth);

} // namespace moert

#endif // MOE_RUNTIME_BASE_JSONPLACE_H
