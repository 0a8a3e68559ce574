// Converts values to text and JSON: str(), repr(), json.dumps() and
// json.loads().
#include "runtime/base/Text.h"
#include "runtime/text/jinja/Unicode.h"
#include "runtime/text/jinja/Value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

namespace moert::jinja {

std::string printInteger(Integer value) {
  if (value == 0)
    return "0";
  bool isNegative = value < 0;
  std::string digits;
  // Takes digits of the negative number: the least one has no positive
  // counterpart.
  for (Integer rest = isNegative ? value : -value; rest != 0; rest /= 10)
    digits += static_cast<char>('0' - static_cast<int>(rest % 10));
  if (isNegative)
    digits += '-';
  std::ranges::reverse(digits);
  return digits;
}

std::string printFloat(double value) {
  if (std::isnan(value))
    return "nan";
  if (std::isinf(value))
    return value < 0 ? "-inf" : "inf";
  // The shortest digits that parse to the same number, as d.ddde+xx.
  char buffer[40];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value,
                           std::chars_format::scientific)
                 .ptr;
  std::string_view shortest(buffer, static_cast<size_t>(end - buffer));
  size_t e = shortest.find('e');
  int exponent = 0;
  const char *digitsOfExponent = buffer + e + 1;
  if (*digitsOfExponent == '+')
    ++digitsOfExponent;
  std::from_chars(digitsOfExponent, end, exponent);
  std::string sign = shortest[0] == '-' ? "-" : "";
  std::string digits;
  for (char c : shortest.substr(0, e))
    if (c >= '0' && c <= '9')
      digits += c;
  auto count = static_cast<int>(digits.size());
  // Outside this range, Python's repr() uses an exponent.
  if (exponent >= 16 || exponent < -4) {
    std::string result = sign + digits[0];
    if (count > 1)
      result += "." + digits.substr(1);
    std::string power = std::to_string(std::abs(exponent));
    return result + (exponent < 0 ? "e-" : "e+") +
           (power.size() < 2 ? "0" : "") + power;
  }
  if (exponent < 0)
    return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') +
           digits;
  if (count <= exponent + 1)
    return sign + digits +
           std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
  auto point = static_cast<size_t>(exponent + 1);
  return sign + digits.substr(0, point) + "." + digits.substr(point);
}

static void appendHex(Text &out, char32_t c, unsigned digits) {
  while (digits-- > 0)
    out += "0123456789abcdef"[c >> 4 * digits & 15];
}

static void reprString(Text &out, std::string_view text) {
  // Single quotes, unless only double quotes avoid escapes.
  bool useDouble = text.find('\'') != std::string_view::npos &&
                   text.find('"') == std::string_view::npos;
  char quote = useDouble ? '"' : '\'';
  out += quote;
  for (char32_t c : decode(text)) {
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (isPrintable(c)) {
      std::string shown;
      appendCharacter(shown, c);
      out += shown;
    } else {
      unsigned digits = c <= 0xFF ? 2 : c <= 0xFFFF ? 4 : 8;
      out += digits == 2 ? "\\x" : digits == 4 ? "\\u" : "\\U";
      appendHex(out, c, digits);
    }
  }
  out += quote;
}

static void reprItems(Text &out, const std::vector<Value> &items,
                      uint32_t depth) {
  for (size_t i = 0; i < items.size() && !out.heap().exhausted(); ++i) {
    if (i > 0)
      out += ", ";
    printRepr(out, items[i], depth + 1);
  }
}

void printRepr(Text &out, const Value &value, uint32_t depth) {
  if (!out.heap().spend())
    return;
  if (depth > out.heap().limits().depth) {
    out.heap().charge(UINT64_MAX); // In Python, this fails as well.
    return;
  }
  switch (value.kind()) {
  case Kind::Undefined:
    out += "Undefined";
    return;
  case Kind::None:
    out += "None";
    return;
  case Kind::Bool:
    out += value.boolean() ? "True" : "False";
    return;
  case Kind::Int:
    out += printInteger(value.integer());
    return;
  case Kind::Float:
    out += printFloat(value.number());
    return;
  case Kind::String:
    if (value.string().markup)
      out += "Markup(";
    reprString(out, value.text());
    if (value.string().markup)
      out += ')';
    return;
  case Kind::Sequence: {
    const Sequence &sequence = value.sequence();
    switch (sequence.flavor) {
    case Flavor::List:
      out += '[';
      reprItems(out, sequence.items, depth);
      out += ']';
      return;
    case Flavor::Tuple:
      out += '(';
      reprItems(out, sequence.items, depth);
      out += sequence.items.size() == 1 ? ",)" : ")";
      return;
    case Flavor::Range:
      out += sequence.shown;
      return;
    case Flavor::Generator:
      out += "<generator object>";
      return;
    default:
      out += typeName(value);
      out += "([";
      reprItems(out, sequence.items, depth);
      out += "])";
      return;
    }
  }
  case Kind::Dict:
  case Kind::Namespace: {
    out += value.is(Kind::Dict) ? "{" : "<Namespace {";
    bool isFirst = true;
    for (const auto &[key, item] : value.dict().entries) {
      if (out.heap().exhausted())
        return;
      if (!std::exchange(isFirst, false))
        out += ", ";
      printRepr(out, key, depth + 1);
      out += ": ";
      printRepr(out, item, depth + 1);
    }
    out += value.is(Kind::Dict) ? "}" : "}>";
    return;
  }
  case Kind::Loop:
    out += "<LoopContext " + std::to_string(value.loop().index + 1) + "/" +
           std::to_string(value.loop().items.size()) + ">";
    return;
  case Kind::Function:
    out += value.function().type == Function::Type::Macro ? "<Macro '"
                                                          : "<function '";
    out += value.function().name;
    out += "'>";
    return;
  }
}

void printStr(Text &out, const Value &value) {
  if (value.is(Kind::String))
    out += value.text();
  else if (!value.is(Kind::Undefined))
    printRepr(out, value);
}

std::string str(Heap &heap, const Value &value) {
  Text out(heap);
  printStr(out, value);
  return std::move(out.str());
}

std::string repr(Heap &heap, const Value &value) {
  Text out(heap);
  printRepr(out, value);
  return std::move(out.str());
}

static void jsonString(Text &out, std::string_view text, bool ensureAscii) {
  out += '"';
  for (char32_t c : decode(text)) {
    switch (c) {
    case '"':
      out += "\\\"";
      continue;
    case '\\':
      out += "\\\\";
      continue;
    case '\n':
      out += "\\n";
      continue;
    case '\r':
      out += "\\r";
      continue;
    case '\t':
      out += "\\t";
      continue;
    case '\b':
      out += "\\b";
      continue;
    case '\f':
      out += "\\f";
      continue;
    default:
      break;
    }
    bool escapes = c < 0x20 || (ensureAscii && c > 0x7E);
    if (!escapes) {
      std::string shown;
      appendCharacter(shown, c);
      out += shown;
    } else if (c <= 0xFFFF) {
      out += "\\u";
      appendHex(out, c, 4);
    } else {
      out += "\\u";
      appendHex(out, 0xD800 + ((c - 0x10000) >> 10), 4);
      out += "\\u";
      appendHex(out, 0xDC00 + (c & 0x3FF), 4);
    }
  }
  out += '"';
}

static std::string jsonFloat(double value) {
  if (std::isnan(value))
    return "NaN";
  if (std::isinf(value))
    return value < 0 ? "-Infinity" : "Infinity";
  return printFloat(value);
}

static Status jsonKey(Text &out, const Value &key, bool ensureAscii) {
  switch (key.kind()) {
  case Kind::String:
    jsonString(out, key.text(), ensureAscii);
    return Status::ok();
  case Kind::None:
    out += "\"null\"";
    return Status::ok();
  case Kind::Bool:
    out += key.boolean() ? "\"true\"" : "\"false\"";
    return Status::ok();
  case Kind::Int:
    out += "\"" + printInteger(key.integer()) + "\"";
    return Status::ok();
  case Kind::Float:
    out += "\"" + jsonFloat(key.number()) + "\"";
    return Status::ok();
  default:
    return failure("keys must be str, int, float, bool or None, not " +
                   std::string(typeName(key)));
  }
}

Status printJson(Text &out, const Value &value, const JsonStyle &style,
                 uint32_t depth) {
  Heap &heap = out.heap();
  if (!heap.spend())
    return heap.status();
  if (depth > heap.limits().depth)
    return failure("tojson: the value is nested more than " +
                   std::to_string(heap.limits().depth) + " deep");
  auto newLine = [&](uint32_t level) {
    if (!style.isIndented)
      return;
    out += '\n';
    out.append(level, style.indent);
  };
  // With an indentation, no blank follows an item.
  std::string_view separator = style.itemSeparator;

  switch (value.kind()) {
  case Kind::None:
    out += "null";
    return heap.status();
  case Kind::Bool:
    out += value.boolean() ? "true" : "false";
    return heap.status();
  case Kind::Int:
    out += printInteger(value.integer());
    return heap.status();
  case Kind::Float:
    out += jsonFloat(value.number());
    return heap.status();
  case Kind::String:
    jsonString(out, value.text(), style.ensureAscii);
    return heap.status();
  case Kind::Sequence: {
    if (value.sequence().flavor > Flavor::Tuple)
      break;
    const std::vector<Value> &items = value.sequence().items;
    if (items.empty()) {
      out += "[]";
      return heap.status();
    }
    out += '[';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0)
        out += separator;
      newLine(depth + 1);
      MOE_RETURN_IF_ERROR(printJson(out, items[i], style, depth + 1));
    }
    newLine(depth);
    out += ']';
    return heap.status();
  }
  case Kind::Dict: {
    auto entries = value.dict().entries;
    if (style.sortKeys) {
      Status failed;
      std::ranges::stable_sort(entries, [&](const auto &a, const auto &b) {
        StatusOr<int> order = compare(heap, a.first, b.first);
        if (!order)
          failed = order.status();
        return order && *order < 0;
      });
      MOE_RETURN_IF_ERROR(failed);
    }
    if (entries.empty()) {
      out += "{}";
      return heap.status();
    }
    out += '{';
    bool isFirst = true;
    for (const auto &[key, item] : entries) {
      if (!std::exchange(isFirst, false))
        out += separator;
      newLine(depth + 1);
      MOE_RETURN_IF_ERROR(jsonKey(out, key, style.ensureAscii));
      out += style.keySeparator;
      MOE_RETURN_IF_ERROR(printJson(out, item, style, depth + 1));
    }
    newLine(depth);
    out += '}';
    return heap.status();
  }
  default:
    break;
  }
  return failure("Object of type " + std::string(typeName(value)) +
                 " is not JSON serializable");
}

namespace {
/// Builds values from the events of nlohmann's parser. The depth is limited
/// here, because nlohmann's own tree has no limit.
class Builder : public nlohmann::json_sax<nlohmann::json> {
public:
  explicit Builder(Heap &heap) : heap_(heap) {}

  bool null() override { return put(Value::none()); }
  bool boolean(bool value) override { return put(Value::of(value)); }
  bool number_integer(int64_t value) override { return put(Value::of(value)); }
  bool number_unsigned(uint64_t value) override {
    return put(Value::of(Integer(value)));
  }
  bool number_float(double value, const std::string &text) override {
    // Integers beyond 64 bits come here as well.
    bool isInteger =
        text.size() < 38 && text.find_first_of(".eE") == std::string::npos;
    if (!isInteger)
      return put(Value::of(value));
    Integer whole = 0;
    for (char c : text)
      if (c != '-')
        whole = 10 * whole + (c - '0');
    return put(Value::of(text[0] == '-' ? -whole : whole));
  }
  bool string(std::string &text) override {
    return put(heap_.string(std::move(text)));
  }
  bool binary(nlohmann::json::binary_t &) override { return false; }
  bool start_object(size_t) override {
    Dict *dict = heap_.make<Dict>();
    return open(dict, dict, nullptr);
  }
  bool key(std::string &text) override {
    open_.back().key = heap_.string(std::move(text));
    return !heap_.exhausted();
  }
  bool end_object() override { return close(); }
  bool start_array(size_t) override {
    Sequence *list = heap_.make<Sequence>(Flavor::List, std::vector<Value>());
    return open(list, nullptr, list);
  }
  bool end_array() override { return close(); }
  bool parse_error(size_t, const std::string &,
                   const nlohmann::detail::exception &error) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    std::string_view text = error.what();
    size_t place = text.find("at line");
    message = clipped(text.substr(place == std::string_view::npos ? 0 : place));
    return false;
  }

  Value result;
  std::string message;

private:
  struct Open {
    Dict *dict;
    Sequence *list;
    Value key;
  };

  bool put(const Value &value) {
    if (open_.empty())
      result = value;
    else if (open_.back().dict)
      open_.back().dict->set(open_.back().key, value);
    else
      open_.back().list->items.push_back(value);
    return heap_.charge(2 * sizeof(Value));
  }
  template <class T> bool open(T *object, Dict *dict, Sequence *list) {
    if (open_.size() >= heap_.limits().depth) {
      message = "is nested more than " + std::to_string(heap_.limits().depth) +
                " deep";
      return false;
    }
    if (!put(Value(object)))
      return false;
    open_.push_back({dict, list, {}});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  Heap &heap_;
  std::vector<Open> open_;
};
} // namespace

Result parseJson(Heap &heap, std::string_view text) {
  Builder builder(heap);
  if (nlohmann::json::sax_parse(text, &builder))
    return builder.result;
  MOE_RETURN_IF_ERROR(heap.status());
  return failure(builder.message);
}

} // namespace moert::jinja
