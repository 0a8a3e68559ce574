#include "runtime/base/JsonPlace.h"

#include <algorithm>
#include <fmt/format.h>

using Json = nlohmann::ordered_json;

namespace moert {

namespace {
/// Walks a JSON text that has been parsed before and is known to be valid.
class Scanner {
public:
  explicit Scanner(std::string_view text) : text_(text) { skipSpace(); }

  size_t position() const { return at_; }

  /// Moves from an object to the key of its first member called `key`; does not
  /// move if there is none.
  bool toMember(std::string_view key) {
    size_t object = at_;
    for (bool more = enter('{'); more; more = next()) {
      size_t begin = at_;
      skipString();
      std::string_view name = text_.substr(begin, at_ - begin);
      if (Json::parse(name).get<std::string>() == key) {
        at_ = begin;
        return true;
      }
      toValue();
      skipValue();
    }
    at_ = object;
    return false;
  }

  /// Moves from a member's key to its value.
  void keyToValue() {
    skipString();
    toValue();
  }

  /// Moves from a list to an element.
  bool toElement(size_t index) {
    size_t list = at_;
    for (bool more = enter('['); more; more = next()) {
      if (index-- == 0)
        return true;
      skipValue();
    }
    at_ = list;
    return false;
  }

  /// Moves to the first object or list that is nested in `depth` others.
  void toDepth(int depth) {
    while (at_ < text_.size()) {
      char c = front();
      if ((c == '{' || c == '[') && depth-- == 0)
        return;
      depth += c == '}' || c == ']';
      if (c == '"')
        skipString();
      else
        ++at_;
      skipSpace();
    }
  }

private:
  char front() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void skipSpace() {
    while (at_ < text_.size()) {
      std::string_view rest = text_.substr(at_);
      if (rest.starts_with("//"))
        at_ = std::min(text_.size(), text_.find('\n', at_));
      else if (rest.starts_with("/*"))
        at_ = std::min(text_.size(), text_.find("*/", at_ + 2) + 2);
      else if (std::string_view(" \t\r\n").find(rest[0]) != rest.npos)
        ++at_;
      else
        return;
    }
  }

  void skipString() {
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_)
      at_ += text_[at_] == '\\';
    at_ = std::min(text_.size(), at_ + 1);
  }

  void toValue() {
    skipSpace();
    ++at_; // the colon
    skipSpace();
  }

  void skipValue() {
    for (size_t depth = 0; at_ < text_.size(); skipSpace()) {
      char c = front();
      if (c == '"') {
        skipString();
      } else {
        depth += c == '{' || c == '[';
        if (c == '}' || c == ']')
          --depth;
        ++at_;
        // A number or a word extends to the next delimiter.
        if (std::string_view("{}[],:").find(c) == std::string_view::npos)
          at_ = std::min(text_.size(),
                         text_.find_first_of("{}[],:/\" \t\r\n", at_));
      }
      if (depth == 0)
        return skipSpace();
    }
  }

  bool enter(char bracket) {
    if (front() != bracket)
      return false;
    ++at_;
    skipSpace();
    return front() != '}' && front() != ']' && at_ < text_.size();
  }

  /// Moves from the end of a value to the next value of the same object or
  /// list.
  bool next() {
    if (front() != ',')
      return false;
    ++at_;
    skipSpace();
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
};

Status errorAt(std::string_view file, std::string_view json, size_t offset,
               std::string_view message) {
  std::string_view before = json.substr(0, offset);
  auto line = 1 + std::ranges::count(before, '\n');
  size_t column = offset - (before.rfind('\n') + 1); // npos + 1 is 0
  return Status(StatusCode::InvalidFile,
                fmt::format("{}:{}:{}: {}", file, line, column + 1, message));
}

/// Extracts the reason from a message of nlohmann::json, which has one of the
/// forms
///   [json.exception.x.N] parse error at line 1, column 2: syntax error while
///   parsing value - REASON; last read: '...'; expected X
///   [json.exception.x.N] REASON
std::string reasonOf(std::string_view what) {
  what.remove_prefix(std::min(what.size(), what.find("] ") + 2));
  if (size_t dash = what.find(" - "); dash != what.npos)
    what.remove_prefix(dash + 3);
  std::string reason(what.substr(0, what.find("; last read: ")));
  if (size_t expected = what.rfind("; expected ");
      expected != what.npos && expected >= reason.size())
    reason += what.substr(expected);
  return reason;
}

/// The JSON library looks members up one by one, so that an object of n members
/// takes time in proportion to n * n.
constexpr size_t kMostMembers = 5000;

/// Checks a text without building values. Unlike the parser it reports the
/// position of every error, and it stops where the nesting is too deep.
class Checker : public nlohmann::json_sax<Json> {
public:
  explicit Checker(int depth) : left_(depth) {}

  size_t offset = 0;
  std::string error; ///< Empty if the nesting is too deep.

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t &) override { return true; }
  bool string(string_t &) override { return true; }
  bool binary(binary_t &) override { return true; }
  bool key(string_t &) override {
    if (++members_.back() <= kMostMembers)
      return true;
    error = fmt::format("an object has more than {} members", kMostMembers);
    return false;
  }
  bool start_object(size_t) override {
    members_.push_back(0);
    return --left_ >= 0;
  }
  bool end_object() override {
    members_.pop_back();
    return ++left_ > 0;
  }
  bool start_array(size_t) override { return --left_ >= 0; }
  bool end_array() override { return ++left_ > 0; }
  bool parse_error(size_t position, const std::string &,
                   const nlohmann::detail::exception &problem) override {
    // `position` is the number of bytes read, including the offending one.
    offset = position > 0 ? position - 1 : 0;
    error = "is not valid JSON: " + reasonOf(problem.what());
    return false;
  }

private:
  int left_;
  std::vector<size_t> members_; ///< Of each object around the position.
};
} // namespace

JsonPlace JsonPlace::with(Step step) const {
  JsonPlace place = *this;
  place.steps_.push_back(step);
  return place;
}

Status JsonPlace::error(std::string_view message) const {
  Scanner scanner(json_);
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (const auto *index = std::get_if<size_t>(&steps_[i])) {
      if (!scanner.toElement(*index))
        break;
    } else if (!scanner.toMember(std::get<std::string_view>(steps_[i]))) {
      break;
    } else if (i + 1 < steps_.size()) {
      scanner.keyToValue();
    }
  }
  return errorAt(file_, json_, scanner.position(), message);
}

StatusOr<Json> parseJson(std::string_view file, std::string_view json,
                         int depth) {
  Checker checker(depth);
  if (!Json::sax_parse(json, &checker, Json::input_format_t::json,
                       /*strict=*/true, /*ignore_comments=*/true)) {
    if (!checker.error.empty())
      return errorAt(file, json, checker.offset, checker.error);
    Scanner scanner(json);
    scanner.toDepth(depth);
    return errorAt(
        file, json, scanner.position(),
        fmt::format("lists and objects are nested more than {} deep", depth));
  }
  return Json::parse(json, nullptr, /*allow_exceptions=*/false,
                     /*ignore_comments=*/true);
}

} // namespace moert
