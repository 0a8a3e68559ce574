#include "runtime/serve/api/Fields.h"

#include "runtime/base/Text.h"
#include "runtime/serve/api/ApiSettings.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace moert {

namespace {
/// Returns the name of a wrong value's type, for messages.
std::string nameOf(const nlohmann::ordered_json &json) {
  switch (json.type()) {
  case nlohmann::detail::value_t::null:
    return "null";
  case nlohmann::detail::value_t::boolean:
    return json.get<bool>() ? "true" : "false";
  case nlohmann::detail::value_t::string:
    return "the string " + moert::quoted(json.get_ref<const std::string &>());
  case nlohmann::detail::value_t::array:
    return "a list of " + counted(json.size(), "item");
  case nlohmann::detail::value_t::object:
    return "an object";
  default:
    return json.dump();
  }
}

/// A path such as tools[3].type as tools[].type.
std::string withoutIndices(std::string_view path) {
  std::string result;
  bool isIndex = false;
  for (char c : path) {
    isIndex &= c != ']';
    if (!isIndex)
      result += c;
    isIndex |= c == '[';
  }
  return result;
}

/// What is left of `bytes` when the memory of the values has been taken, but
/// for their texts; below 0 if it does not suffice.
int64_t memoryLeft(const nlohmann::ordered_json &json, int64_t bytes) {
  constexpr int64_t string = 48;
  bytes -= int64_t(sizeof json) + (json.is_string() ? string : 0);
  if (json.is_structured())
    for (auto at = json.begin(); at != json.end() && bytes >= 0; ++at)
      bytes = memoryLeft(*at, bytes - (json.is_object() ? string : 0));
  return bytes;
}
} // namespace

void Problem::add(std::string param, std::string_view what,
                  std::string_view code) {
  if (error)
    return;
  std::string subject = param.empty() ? "the body" : param;
  error = ApiError{.status = 400,
                   .message = subject + " " + std::string(what),
                   .param = std::move(param),
                   .code = std::string(code)};
}

Field Field::operator[](std::string_view key) const {
  if (path_.empty() && !problem_->known.contains(key))
    problem_->known.emplace(key);
  std::string path =
      path_.empty() ? std::string(key) : path_ + "." + std::string(key);
  const Json *member = nullptr;
  if (json_ && object())
    if (auto found = json_->find(std::string(key));
        found != json_->end() && !found->is_null())
      member = &*found;
  if (member && path_.empty() &&
      memoryLeft(*member, int64_t(kMostFieldBytes)) < 0) {
    problem_->add(path, fmt::format("has so many values that they take more "
                                    "than {}",
                                    humanBytes(double(kMostFieldBytes))));
    member = nullptr;
  }
  return {member, std::move(path), *problem_};
}

std::optional<bool> Field::boolean() const {
  if (!json_)
    return std::nullopt;
  if (json_->is_boolean())
    return json_->get<bool>();
  mustBe("true or false");
  return std::nullopt;
}

std::optional<double> Field::number(double least, double most) const {
  if (!json_)
    return std::nullopt;
  if (json_->is_number()) {
    double value = json_->get<double>();
    if (value >= least && value <= most)
      return value;
  }
  mustBe(fmt::format("a number from {} to {}", least, most));
  return std::nullopt;
}

std::optional<int64_t> Field::integer(int64_t least, int64_t most) const {
  if (!json_)
    return std::nullopt;
  // A whole number may be written as 3.0. Doubles beyond 2^53 are not exact.
  constexpr double exact = 9007199254740992.0;
  std::optional<int64_t> value;
  if (json_->is_number_unsigned()) {
    if (json_->get<uint64_t>() <= uint64_t(INT64_MAX))
      value = int64_t(json_->get<uint64_t>());
  } else if (json_->is_number_integer()) {
    value = json_->get<int64_t>();
  } else if (json_->is_number_float()) {
    double real = json_->get<double>();
    if (std::abs(real) <= exact && real == std::floor(real))
      value = int64_t(real);
  }
  if (value && *value >= least && *value <= most)
    return value;
  mustBe(fmt::format("a whole number from {} to {}", least, most));
  return std::nullopt;
}

std::optional<std::string> Field::text() const {
  if (!json_)
    return std::nullopt;
  if (json_->is_string())
    return json_->get<std::string>();
  mustBe("a string");
  return std::nullopt;
}

std::optional<std::string>
Field::word(std::initializer_list<std::string_view> words) const {
  if (!json_)
    return std::nullopt;
  if (json_->is_string())
    for (std::string_view word : words)
      if (json_->get_ref<const std::string &>() == word)
        return std::string(word);
  mustBe(words.size() == 1
             ? fmt::format("\"{}\"", *words.begin())
             : fmt::format("one of \"{}\"", fmt::join(words, "\", \"")));
  return std::nullopt;
}

std::vector<Field> Field::list(size_t most) const {
  if (!json_)
    return {};
  if (!json_->is_array()) {
    mustBe("a list");
    return {};
  }
  if (json_->size() > most) {
    fail(fmt::format("must have at most {}, but has {}", counted(most, "item"),
                     json_->size()));
    return {};
  }
  std::vector<Field> items;
  items.reserve(json_->size());
  for (size_t i = 0; i < json_->size(); ++i)
    items.push_back({&(*json_)[i], fmt::format("{}[{}]", path_, i), *problem_});
  return items;
}

std::vector<std::pair<std::string, Field>> Field::members() const {
  if (!json_ || !object())
    return {};
  std::vector<std::pair<std::string, Field>> members;
  for (const auto &[key, value] : json_->items())
    members.emplace_back(key, (*this)[key]);
  return members;
}

std::vector<std::string> Field::texts(size_t most) const {
  if (isText())
    return {*text()};
  if (json_ && !isList())
    mustBe("a string or a list of strings");
  std::vector<std::string> texts;
  for (const Field &item : isList() ? list(most) : std::vector<Field>())
    texts.push_back(item.text().value_or(""));
  return texts;
}

bool Field::object() const {
  if (json_ && !json_->is_object())
    mustBe("an object");
  return isObject();
}

Field Field::required() const {
  if (!json_)
    fail("is missing", "missing_required_parameter");
  return *this;
}

void Field::fail(std::string_view what, std::string_view code) const {
  problem_->add(path_, what, code);
}

void Field::mustBe(std::string_view expected) const {
  fail(fmt::format("must be {}, but is {}", expected,
                   json_ ? nameOf(*json_) : "missing"));
}

void Field::note(std::string_view what) const {
  // A word of the request names what is skipped; longer texts may be private.
  constexpr size_t mostNotes = 16, mostBytes = 64;
  if (!json_ || problem_->notes.size() >= mostNotes)
    return;
  const bool isWord = isText() && json_->size() > 0 &&
                      json_->get_ref<const std::string &>().size() <= mostBytes;
  std::string note = fmt::format(
      "{}{} {}", withoutIndices(path_),
      isWord ? " " + json_->get_ref<const std::string &>() : "", what);
  if (std::ranges::find(problem_->notes, note) == problem_->notes.end())
    problem_->notes.push_back(std::move(note));
}

void Field::refuse(std::string_view why) const {
  if (!json_ || *json_ == false || (json_->is_structured() && json_->empty()))
    return;
  fail(fmt::format("is not supported: {}", why), "unsupported_parameter");
}

} // namespace moert
