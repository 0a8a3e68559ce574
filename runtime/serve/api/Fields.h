//===- Fields.h - Reads the fields of a request -----------------*- C++ -*-===//
//
//   Problem problem;
//   Field body(json, problem);
//   auto heat = body["temperature"].number(0, 100).value_or(0.8);
//   for (const Field &stop : body["stop"].list(16))
//     ...
//   if (problem.error)
//     ... // "temperature must be a number from 0 to 100, but is a string"
//
// Every read checks type and range. The first thing that is wrong is kept, with
// the path of its field; reads after it give nothing new, so that a reader of a
// request checks once, at its end.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_SERVE_API_FIELDS_H
#define MOE_RUNTIME_SERVE_API_FIELDS_H

#include "runtime/base/Deadline.h"
#include "runtime/serve/api/ApiError.h"

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// The first thing that is wrong with a request, and what of it is skipped.
struct Problem {
  std::optional<ApiError> error = {};
  /// What has no effect, with the fields' names but not which items of lists
  /// they are in, so that the same is said once: "tools[].type web_search".
  std::vector<std::string> notes = {};
  /// The body's members that were asked for.
  std::set<std::string, std::less<>> known = {};
  /// Until when the request may be read.
  Deadline deadline = {};
  void add(std::string param, std::string_view what,
           std::string_view code = {});
};

/// A value of a request and the path to it. JSON and problem must outlive it.
class Field {
public:
  using Json = nlohmann::ordered_json;

  Field(const Json &json, Problem &problem) : Field(&json, "", problem) {}

  /// The member of this name. Absent if it is missing or null, or if this field
  /// is absent; an error if this is no object.
  Field operator[](std::string_view key) const;

  /// Whether there is a value that is not null.
  explicit operator bool() const { return json_ != nullptr; }
  /// The value, which must be there.
  const Json &json() const { return *json_; }
  const std::string &path() const { return path_; }
  bool isText() const { return json_ && json_->is_string(); }
  bool isList() const { return json_ && json_->is_array(); }
  bool isObject() const { return json_ && json_->is_object(); }

  /// The value; nothing if it is absent or wrong. Limits are inclusive.
  std::optional<bool> boolean() const;
  std::optional<double> number(double least, double most) const;
  std::optional<int64_t> integer(int64_t least, int64_t most) const;
  std::optional<std::string> text() const;
  /// A text that is one of `words`.
  std::optional<std::string>
  word(std::initializer_list<std::string_view> words) const;
  /// The items of a list of at most `most`; none if it is absent.
  std::vector<Field> list(size_t most) const;
  /// The members of an object, with their names.
  std::vector<std::pair<std::string, Field>> members() const;
  /// A text, or a list of at most `most` texts.
  std::vector<std::string> texts(size_t most) const;
  /// Whether it is an object; an error if it is anything else.
  bool object() const;
  /// The field as if `json`, which must outlive it, were its value.
  Field as(const Json &json) const { return {&json, path_, *problem_}; }
  /// A field that is absent.
  Field none() const { return {nullptr, path_, *problem_}; }
  /// The field itself; an error if it is absent.
  Field required() const;

  /// Says what is wrong: "must be ...".
  void fail(std::string_view what, std::string_view code = {}) const;
  /// Says that the value is not of a type: "must be <expected>, but is ...".
  void mustBe(std::string_view expected) const;
  /// Until when the request may be read.
  const Deadline &deadline() const { return problem_->deadline; }
  /// Notes that the value has no effect: "is skipped: ...".
  void note(std::string_view what) const;
  /// An error, with the reason, unless the field is absent, false, or an empty
  /// list: such values ask for nothing.
  void refuse(std::string_view why) const;

private:
  Field(const Json *json, std::string path, Problem &problem)
      : json_(json), path_(std::move(path)), problem_(&problem) {}

  const Json *json_; ///< Null if the field is absent.
  std::string path_;
  Problem *problem_;
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_FIELDS_H
