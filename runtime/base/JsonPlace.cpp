#include "runtime/base/JsonPlace.h"

#include "runtime/base/Text.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <unordered_map>

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
      const Json parsed = Json::parse(name, nullptr, false);
      if (parsed.is_string() && parsed.get_ref<const std::string &>() == key) {
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
    ++at_; // Skips the colon.
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
  // On the first line, npos + 1 is 0.
  size_t column = offset - (before.rfind('\n') + 1);
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

/// Objects keep their members in a list, which is searched from the front.
constexpr size_t kMostMembers = 5000;
/// Members from which on names are looked up by hash while an object is built.
constexpr size_t kManyMembers = 16;
/// Containers above so many bytes keep the room that they do not use: a copy
/// would take more for a moment.
constexpr size_t kLargeContainer = size_t(1) << 20;
/// Items or members from which on a list or object gets its room before it is
/// read: to double that again and again takes up to three times its memory.
constexpr uint32_t kManyItems = 512;

/// How many items or members the long lists and objects of a text have, by the
/// number of lists and objects that begin before each. Of a text that is no
/// JSON, or nested more than `depth` deep, any.
std::unordered_map<size_t, uint32_t> longOnes(std::string_view text,
                                              int depth) {
  struct Open {
    size_t number;
    uint32_t commas;
  };
  std::unordered_map<size_t, uint32_t> result;
  std::vector<Open> open;
  size_t begun = 0;
  for (size_t at = 0; at < text.size() && int64_t(open.size()) <= depth; ++at)
    switch (text[at]) {
    case '"':
      for (++at; at < text.size() && text[at] != '"'; ++at)
        at += text[at] == '\\';
      break;
    case '[':
    case '{':
      open.push_back({begun++, 0});
      break;
    case ',':
      if (!open.empty())
        ++open.back().commas;
      break;
    case ']':
    case '}':
      if (open.empty())
        return result;
      if (open.back().commas >= kManyItems)
        result[open.back().number] = open.back().commas + 1;
      open.pop_back();
      break;
    }
  return result;
}

/// Builds values from a text. Unlike the library's own parser it reports the
/// position of every error, stops where the nesting is too deep or memory would
/// be, and takes time in proportion to the text.
class Builder : public nlohmann::json_sax<Json> {
public:
  Builder(std::string_view text, int depth)
      : left_(depth), longOnes_(longOnes(text, depth)) {}

  ~Builder() override { takeApart(root); }

  size_t offset = 0;
  std::string error; ///< Empty if the nesting is too deep.
  Json root;

  bool null() override { return add(nullptr) != nullptr; }
  bool boolean(bool value) override { return add(value) != nullptr; }
  bool number_integer(number_integer_t value) override {
    return add(value) != nullptr;
  }
  bool number_unsigned(number_unsigned_t value) override {
    return add(value) != nullptr;
  }
  bool number_float(number_float_t value, const string_t &) override {
    return add(value) != nullptr;
  }
  bool string(string_t &value) override {
    return count(allocated(sizeof(string_t)) + bytesOf(value)) &&
           add(std::move(value)) != nullptr;
  }
  bool binary(binary_t &) override { return true; }
  bool start_object(size_t) override {
    const size_t members = nextRoom();
    if (!enter(Json::object()))
      return false;
    if (members > 0)
      setRoom(open_.back().value->get_ref<Json::object_t &>(),
              std::min(members, kMostMembers));
    return true;
  }
  bool start_array(size_t) override {
    const size_t items = nextRoom();
    if (!enter(Json::array()) || !count(items * sizeof(Json)))
      return false;
    open_.back().room = items;
    open_.back().value->get_ref<Json::array_t &>().reserve(items);
    return true;
  }

  bool key(string_t &name) override {
    Open &open = open_.back();
    auto &members = open.value->get_ref<Json::object_t &>();
    open.member = find(open, members, name);
    if (open.member < members.size())
      return true; // The last of equal names counts.
    if (members.size() == kMostMembers) {
      error = fmt::format("an object has more than {} members", kMostMembers);
      return false;
    }
    if (!count(sizeof(Json::object_t::value_type) + bytesOf(name)))
      return false;
    if (!open.indices.empty())
      open.indices.emplace(name, members.size());
    if (members.size() == members.capacity())
      setRoom(members, std::max<size_t>(4, 2 * members.size()));
    static_cast<Members &>(members).emplace_back(std::move(name), nullptr);
    return true;
  }
  bool end_object() override {
    auto &members = open_.back().value->get_ref<Json::object_t &>();
    if (isLoose(members))
      setRoom(members, members.size());
    return leave();
  }
  bool end_array() override {
    auto &items = open_.back().value->get_ref<Json::array_t &>();
    if (isLoose(items))
      items.shrink_to_fit();
    return leave();
  }
  bool parse_error(size_t position, const std::string &,
                   const nlohmann::detail::exception &problem) override {
    // `position` is the number of bytes read, including the offending one.
    offset = position > 0 ? position - 1 : 0;
    error = "is not valid JSON: " + reasonOf(problem.what());
    return false;
  }

private:
  /// A list or object around the position.
  struct Open {
    Json *value;
    size_t member = 0; ///< The member whose value comes next.
    /// Indices of members by name; used if an object has many.
    std::unordered_map<std::string, size_t> indices = {};
    size_t room = 0; ///< Number of list items whose memory is counted.
  };

  /// The index of a member, or the number of members.
  static size_t find(Open &open, const Json::object_t &members,
                     const std::string &name) {
    if (members.size() < kManyMembers)
      return size_t(std::ranges::find(members, name,
                                      [](const auto &member) {
                                        return std::string_view(member.first);
                                      }) -
                    members.begin());
    if (open.indices.empty())
      for (const auto &[known, value] : members)
        open.indices.emplace(known, open.indices.size());
    auto found = open.indices.find(name);
    return found == open.indices.end() ? members.size() : found->second;
  }

  using Members = Json::object_t::Container;

  template <class Container> static bool isLoose(const Container &container) {
    const size_t unused = container.capacity() - container.size();
    return unused > container.size() / 8 &&
           container.capacity() * sizeof(typename Container::value_type) <=
               kLargeContainer;
  }

  /// Changes the capacity. The library's way copies all values, since names are
  /// constant and so cannot be moved.
  static void setRoom(Members &members, size_t capacity) {
    Members moved;
    moved.reserve(capacity);
    for (auto &[name, value] : members)
      moved.emplace_back(name, std::move(value));
    members.swap(moved);
  }

  /// Returns the bytes of memory that malloc() uses for a request of this many
  /// bytes.
  static constexpr size_t allocated(size_t bytes) {
    return std::max<size_t>(32, (bytes + 8 + 15) / 16 * 16);
  }
  /// Returns the bytes of a string's text besides the string object.
  static size_t bytesOf(const string_t &text) {
    constexpr size_t inside = 15;
    return text.size() <= inside ? 0 : allocated(text.size() + 1);
  }

  bool count(size_t bytes) {
    builtBytes_ += bytes;
    if (builtBytes_ <= kMostJsonBytes)
      return true;
    error = fmt::format("has so many values that they take more than {}",
                        humanBytes(double(kMostJsonBytes)));
    return false;
  }

  /// Puts a value where the next one belongs; null if there is no room.
  template <class Value> Json *add(Value &&value) {
    if (open_.empty())
      return &(root = std::forward<Value>(value));
    Open &open = open_.back();
    if (open.value->is_object())
      return &(open.value->get_ref<Json::object_t &>()
                   .begin()[ptrdiff_t(open.member)]
                   .second = std::forward<Value>(value));
    auto &items = open.value->get_ref<Json::array_t &>();
    if (items.size() >= open.room && !count(sizeof(Json)))
      return nullptr;
    return &items.emplace_back(std::forward<Value>(value));
  }

  /// The room that the list or object which begins now needs, if that is much.
  size_t nextRoom() {
    auto found = longOnes_.find(begun_++);
    return found == longOnes_.end() ? 0 : found->second;
  }

  bool enter(Json value) {
    if (--left_ < 0 || !count(allocated(sizeof(Json::array_t))))
      return false;
    Json *place = add(std::move(value));
    if (place)
      open_.push_back({place});
    return place != nullptr;
  }
  bool leave() {
    open_.pop_back();
    ++left_;
    return true;
  }

  int left_;
  const std::unordered_map<size_t, uint32_t> longOnes_;
  size_t begun_ = 0; ///< Number of lists and objects that have begun.
  size_t builtBytes_ = 0;
  std::vector<Open> open_;
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

/// The code unit of an escape such as \\uD83D at `at`, or -1.
static int32_t escapedUnit(std::string_view json, size_t at) {
  if (!json.substr(std::min(at, json.size())).starts_with("\\u"))
    return -1;
  uint16_t unit = 0;
  const std::string_view digits = json.substr(at + 2, 4);
  auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), unit, 16);
  return error == std::errc() && end == digits.data() + 4 ? unit : -1;
}

/// Writes U+FFFD for each escaped surrogate without its other half, which
/// programs leave that cut strings of UTF-16. The size stays.
static std::string withoutLoneSurrogates(std::string json) {
  auto isHigh = [](int32_t unit) { return unit >= 0xD800 && unit < 0xDC00; };
  auto isLow = [](int32_t unit) { return unit >= 0xDC00 && unit < 0xE000; };
  for (size_t at = 0; (at = json.find('\\', at)) != json.npos;) {
    const int32_t unit = escapedUnit(json, at);
    if (isHigh(unit) && isLow(escapedUnit(json, at + 6))) {
      at += 12;
      continue;
    }
    if (isHigh(unit) || isLow(unit))
      json.replace(at + 2, 4, "FFFD");
    at += 2;
  }
  return json;
}

void takeApart(Json &json) {
  auto empty = [](auto &values, auto &&valueOf) {
    while (!values.empty()) {
      takeApart(valueOf(values.back()));
      values.pop_back();
    }
  };
  if (json.is_array())
    empty(json.get_ref<Json::array_t &>(),
          [](Json &value) -> Json & { return value; });
  else if (json.is_object())
    empty(static_cast<Json::object_t::Container &>(
              json.get_ref<Json::object_t &>()),
          [](auto &member) -> Json & { return member.second; });
}

StatusOr<Json> parseJson(std::string_view file, std::string_view json,
                         int depth) {
  std::string whole;
  if (json.find("\\ud") != json.npos || json.find("\\uD") != json.npos)
    json = whole = withoutLoneSurrogates(std::string(json));
  Builder builder(json, depth);
  if (Json::sax_parse(json, &builder, Json::input_format_t::json,
                      /*strict=*/true, /*ignore_comments=*/true))
    return std::move(builder.root);
  if (!builder.error.empty())
    return errorAt(file, json, builder.offset, builder.error);
  Scanner scanner(json);
  scanner.toDepth(depth);
  return errorAt(
      file, json, scanner.position(),
      fmt::format("lists and objects are nested more than {} deep", depth));
}

} // namespace moert
