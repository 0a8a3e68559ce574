// Filters of one value: text, numbers, JSON.
#include "runtime/text/jinja/Interpreter.h"
#include "runtime/text/jinja/Unicode.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace moert::jinja {

namespace {

/// Returns the text that a filter works on: any value, printed.
std::string shown(const Call &call) { return str(call.heap, call.self); }
Result text(Call &call, std::string value) {
  return call.heap.string(std::move(value));
}
/// Charges for case changes and the like, which make at most eight bytes of
/// one.
Status chargeFor(Call &call, std::string_view value) {
  call.heap.charge(8 * value.size());
  return call.heap.status();
}

/// Fails unless the value is text: some filters are Python's own string
/// methods.
Status checkText(Call &call, const char *filter) {
  if (call.self.is(Kind::String))
    return Status::ok();
  return failure("filter '" + std::string(filter) + "' takes text, not '" +
                 std::string(typeName(call.self)) + "'");
}

Result runUpper(Call &call) {
  std::string value = shown(call);
  MOE_RETURN_IF_ERROR(chargeFor(call, value));
  return text(call, upper(value));
}
Result runLower(Call &call) {
  std::string value = shown(call);
  MOE_RETURN_IF_ERROR(chargeFor(call, value));
  return text(call, lower(value));
}
Result runCapitalize(Call &call) {
  std::string value = shown(call);
  MOE_RETURN_IF_ERROR(chargeFor(call, value));
  return text(call, capitalize(value));
}
/// Capitalises words, which begin after blanks, hyphens and opening brackets.
Result runTitle(Call &call) {
  std::string value = shown(call);
  MOE_RETURN_IF_ERROR(chargeFor(call, value));
  std::string result, word;
  auto flush = [&] {
    size_t first = word.empty() ? 0 : nextCharacter(word, 0);
    result += upper(word.substr(0, first)) + lower(word.substr(first));
    word.clear();
  };
  for (char32_t c : decode(value)) {
    bool separates =
        isSpace(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    if (separates)
      flush();
    appendCharacter(separates ? result : word, c);
  }
  flush();
  return text(call, std::move(result));
}

Result runTrim(Call &call) {
  std::string value = shown(call);
  if (!call.has(0) || call.arguments[0]->is(Kind::None))
    return text(call, std::string(strip(value, nullptr, true, true)));
  MOE_ASSIGN_OR_RETURN(std::string_view set, call.text(0, ""));
  call.heap.spend(set.size() * value.size() / 64);
  return text(call, std::string(strip(value, &set, true, true)));
}

Result runReplace(Call &call) {
  if (!call.has(0) || !call.has(1))
    return failure("filter 'replace' takes what to replace and what by");
  Value value = call.heap.string(shown(call));
  MOE_ASSIGN_OR_RETURN(Value method,
                       call.interpreter.attribute(value, "replace"));
  CallValues values;
  for (size_t i = 0; i < 2; ++i)
    values.positional.push_back(
        call.heap.string(str(call.heap, *call.arguments[i])));
  if (call.has(2) && !call.arguments[2]->is(Kind::None))
    values.positional.push_back(*call.arguments[2]);
  return call.interpreter.call(method, values);
}

Result runIndent(Call &call) {
  MOE_RETURN_IF_ERROR(checkText(call, "indent"));
  std::string value = shown(call);
  std::string indentation;
  if (call.has(0) && call.arguments[0]->is(Kind::String)) {
    indentation = call.arguments[0]->text();
  } else {
    MOE_ASSIGN_OR_RETURN(int64_t width, call.integer(0, 4));
    Text blanks(call.heap);
    blanks.append(static_cast<size_t>(std::max<int64_t>(width, 0)), " ");
    MOE_RETURN_IF_ERROR(call.heap.status());
    indentation = std::move(blanks.str());
  }
  bool indentsFirst = call.flag(1), indentsBlank = call.flag(2);
  value += '\n'; // Gives an empty text a line, too.
  Text out(call.heap);
  bool isFirst = true;
  for (std::string_view line : splitLines(value, false)) {
    if (!isFirst)
      out += '\n';
    bool indents = isFirst ? indentsFirst : indentsBlank || !line.empty();
    isFirst = false;
    if (indents)
      out += indentation;
    out += line;
  }
  return text(call, std::move(out.str()));
}

Result runCenter(Call &call) {
  MOE_ASSIGN_OR_RETURN(int64_t width, call.integer(0, 80));
  MOE_ASSIGN_OR_RETURN(
      Value method,
      call.interpreter.attribute(call.heap.string(shown(call)), "center"));
  CallValues values;
  values.positional = {Value::of(width)};
  return call.interpreter.call(method, values);
}

Result runTruncate(Call &call) {
  MOE_ASSIGN_OR_RETURN(int64_t length, call.integer(0, 255));
  MOE_ASSIGN_OR_RETURN(std::string_view end, call.text(2, "..."));
  MOE_ASSIGN_OR_RETURN(int64_t leeway, call.integer(3, 5));
  auto endSize = static_cast<int64_t>(countCharacters(end));
  if (length < endSize)
    return failure("expected length >= " + std::to_string(endSize) + ", got " +
                   std::to_string(length));
  MOE_ASSIGN_OR_RETURN(int64_t size,
                       moert::jinja::length(call.heap, call.self));
  if (size - length <= std::max<int64_t>(leeway, 0))
    return call.self;
  MOE_RETURN_IF_ERROR(checkText(call, "truncate"));
  std::string value = shown(call);
  std::string kept =
      encode(std::u32string_view(decode(value))
                 .substr(0, static_cast<size_t>(length - endSize)));
  size_t blank = kept.rfind(' ');
  if (!call.flag(1) && blank != std::string::npos)
    kept.resize(blank);
  return text(call, kept.append(end));
}

Result runWordcount(Call &call) {
  int64_t count = 0;
  bool inWord = false;
  for (char32_t c : decode(shown(call))) {
    bool isPart = isWord(c);
    count += isPart && !inWord;
    inWord = isPart;
  }
  return Value::of(count);
}

Result runStriptags(Call &call) {
  std::string value = shown(call), plain;
  bool inTag = false;
  for (char c : value) {
    if (c == '<')
      inTag = true;
    else if (c == '>' && inTag)
      inTag = false;
    else if (!inTag)
      plain += c;
  }
  std::string result;
  for (char32_t c : decode(plain)) {
    if (!isSpace(c))
      appendCharacter(result, c);
    else if (!result.empty() && result.back() != ' ')
      result += ' ';
  }
  return text(call, std::string(strip(result, nullptr, true, true)));
}

Result runString(Call &call) {
  if (call.self.is(Kind::String))
    return call.self;
  return text(call, shown(call));
}
Result runEscape(Call &call) {
  if (call.self.is(Kind::String) && call.self.string().markup)
    return call.self;
  return call.heap.string(escapeHtml(call.heap, shown(call)), true);
}
Result runForceEscape(Call &call) {
  return call.heap.string(escapeHtml(call.heap, shown(call)), true);
}
Result runSafe(Call &call) { return call.heap.string(shown(call), true); }

Result runUrlencode(Call &call) {
  bool isQuery = call.self.is(Kind::Dict);
  auto quote = [&](Text &out, std::string_view value) {
    for (char c : value) {
      if (isQuery && (c == ' ' || c == '/')) {
        out += c == ' ' ? "+" : "%2F";
        continue;
      }
      bool isPlain =
          (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
          (c >= '0' && c <= '9') ||
          std::string_view("_.-~/").find(c) != std::string_view::npos;
      if (isPlain) {
        out += c;
        continue;
      }
      auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += "0123456789ABCDEF"[byte >> 4];
      out += "0123456789ABCDEF"[byte & 15];
    }
  };
  Text out(call.heap);
  if (!isQuery) {
    quote(out, shown(call));
    return text(call, std::move(out.str()));
  }
  for (const auto &[key, value] : call.self.dict().entries) {
    if (!out.str().empty())
      out += '&';
    quote(out, str(call.heap, key));
    out += '=';
    quote(out, str(call.heap, value));
  }
  return text(call, std::move(out.str()));
}

Result runFormat(Call &call) {
  Value format = call.heap.string(shown(call));
  if (!call.values.named.entries.empty() && !call.values.positional.empty())
    return failure("can't handle positional and keyword arguments at the same "
                   "time");
  if (call.values.named.entries.empty())
    return formatPercent(call.heap, format,
                         call.heap.list(call.values.positional, Flavor::Tuple));
  Dict *named = call.heap.make<Dict>();
  for (const auto &[key, value] : call.values.named.entries)
    named->set(key, value);
  return formatPercent(call.heap, format, Value(named));
}

//===-- Numbers -----------------------------------------------------------===//

/// Parses like float(text); returns nothing where Python would fail.
std::optional<double> readFloat(std::string_view value) {
  value = strip(value, nullptr, true, true);
  std::string digits;
  for (size_t i = 0; i < value.size(); ++i) {
    bool joins = i > 0 && i + 1 < value.size() && std::isdigit(value[i - 1]) &&
                 std::isdigit(value[i + 1]);
    if (value[i] != '_')
      digits += value[i];
    else if (!joins)
      return std::nullopt;
  }
  std::string_view unsignedPart = digits;
  bool isNegative = unsignedPart.starts_with('-');
  if (isNegative || unsignedPart.starts_with('+'))
    unsignedPart.remove_prefix(1);
  if (unsignedPart.empty() || unsignedPart[0] == '-' || unsignedPart[0] == '+')
    return std::nullopt;
  double number = 0;
  const char *end = unsignedPart.data() + unsignedPart.size();
  auto [stop, error] = std::from_chars(unsignedPart.data(), end, number);
  if (stop != end || error == std::errc::invalid_argument ||
      unsignedPart.find('(') != std::string_view::npos)
    return std::nullopt;
  if (error == std::errc::result_out_of_range) // Out of range, the result is
                                               // zero or infinity.
    number =
        std::strtod(digits.c_str() + (isNegative || digits[0] == '+'), nullptr);
  return isNegative ? -number : number;
}

/// Parses like int(text, base); returns nothing where Python would fail or for
/// more than 127 bits.
std::optional<Integer> readInteger(std::string_view value, int64_t base) {
  value = strip(value, nullptr, true, true);
  bool isNegative = value.starts_with('-');
  if (isNegative || value.starts_with('+'))
    value.remove_prefix(1);
  if (value.size() > 2 && value[0] == '0') {
    char letter = static_cast<char>(value[1] | 0x20);
    int64_t named = letter == 'x'   ? 16
                    : letter == 'o' ? 8
                    : letter == 'b' ? 2
                                    : 0;
    if (named != 0 && (base == named || base == 0)) {
      base = named;
      value.remove_prefix(2);
    }
  }
  if (base == 0)
    base = 10;
  Integer number = 0;
  bool mayJoin = false;
  for (char c : value) {
    if (c == '_' && mayJoin) {
      mayJoin = false;
      continue;
    }
    char letter = static_cast<char>(c | 0x20);
    int digit = c >= '0' && c <= '9'             ? c - '0'
                : letter >= 'a' && letter <= 'z' ? letter - 'a' + 10
                                                 : 36;
    if (digit >= base ||
        __builtin_mul_overflow(number, Integer(base), &number) ||
        __builtin_add_overflow(number, Integer(digit), &number))
      return std::nullopt;
    mayJoin = true;
  }
  if (!mayJoin)
    return std::nullopt;
  return isNegative ? -number : number;
}

Result runInt(Call &call) {
  Value otherwise = call.get(0, Value::of(int64_t(0)));
  MOE_ASSIGN_OR_RETURN(int64_t base, call.integer(1, 10));
  if (base != 0 && (base < 2 || base > 36))
    return otherwise;
  if (call.self.isInteger())
    return Value::of(call.self.integer());
  if (call.self.is(Kind::Undefined))
    return failure(std::string(call.self.hint()));
  std::optional<double> number;
  if (call.self.is(Kind::Float)) {
    number = call.self.number();
  } else if (call.self.is(Kind::String)) {
    if (auto whole = readInteger(call.self.text(), base))
      return Value::of(*whole);
    number = readFloat(call.self.text());
  }
  if (!number || !(std::abs(*number) < 1e38))
    return otherwise;
  return Value::of(static_cast<Integer>(*number));
}

Result runFloat(Call &call) {
  if (call.self.is(Kind::Undefined))
    return failure(std::string(call.self.hint()));
  if (call.self.isNumber())
    return Value::of(call.self.number());
  if (call.self.is(Kind::String))
    if (auto number = readFloat(call.self.text()))
      return Value::of(*number);
  return call.get(0, Value::of(0.0));
}

Result runAbs(Call &call) {
  if (!call.self.isNumber())
    return call.self.is(Kind::Undefined)
               ? failure(std::string(call.self.hint()))
               : failure("bad operand type for abs(): '" +
                         std::string(typeName(call.self)) + "'");
  if (call.self.is(Kind::Float))
    return Value::of(std::abs(call.self.number()));
  return call.self.integer() < 0 ? negate(call.self)
                                 : Value::of(call.self.integer());
}

Result runRound(Call &call) {
  MOE_ASSIGN_OR_RETURN(int64_t places, call.integer(0, 0));
  MOE_ASSIGN_OR_RETURN(std::string_view method, call.text(1, "common"));
  if (method != "common" && method != "ceil" && method != "floor")
    return failure("method must be common, ceil or floor");
  if (!call.self.isNumber())
    return call.self.is(Kind::Undefined)
               ? failure(std::string(call.self.hint()))
               : failure("type " + std::string(typeName(call.self)) +
                         " doesn't define __round__ method");
  if (std::abs(places) > 300)
    return failure("precision must be between -300 and 300");
  double number = call.self.number();
  if (method != "common") {
    double scale = std::pow(10, static_cast<double>(places));
    double whole = method == "ceil" ? std::ceil(number * scale)
                                    : std::floor(number * scale);
    return Value::of(whole / scale);
  }
  if (call.self.isInteger() && places >= 0)
    return Value::of(call.self.integer());
  if (!std::isfinite(number))
    return Value::of(number);
  double rounded = 0;
  if (places >= 0) {
    // printf rounds the exact value, halves to even, like Python.
    char buffer[700];
    std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(places),
                  number);
    rounded = std::strtod(buffer, nullptr);
  } else {
    double scale = std::pow(10, static_cast<double>(-places));
    rounded = std::nearbyint(number / scale) * scale;
  }
  if (call.self.isInteger() && std::abs(rounded) < 1e37)
    return Value::of(static_cast<Integer>(rounded));
  return Value::of(rounded);
}

Result runFilesizeformat(Call &call) {
  MOE_ASSIGN_OR_RETURN(Value number, runFloat(call));
  bool isBinary = call.flag(0);
  double base = isBinary ? 1024 : 1000, bytes = number.number();
  constexpr const char *binary[] = {"KiB", "MiB", "GiB", "TiB",
                                    "PiB", "EiB", "ZiB", "YiB"};
  constexpr const char *decimal[] = {"kB", "MB", "GB", "TB",
                                     "PB", "EB", "ZB", "YB"};
  if (bytes == 1)
    return text(call, "1 Byte");
  if (bytes < base)
    return text(call, std::to_string(static_cast<int64_t>(bytes)) + " Bytes");
  size_t i = 0;
  double unit = base * base;
  for (; i < 7 && bytes >= unit; ++i)
    unit *= base;
  char buffer[400];
  std::snprintf(buffer, sizeof buffer, "%.1f %s", base * bytes / unit,
                isBinary ? binary[i] : decimal[i]);
  return text(call, buffer);
}

//===-- Others ------------------------------------------------------------===//

Result runDefault(Call &call) {
  bool replaces =
      call.self.is(Kind::Undefined) || (call.flag(1) && !truth(call.self));
  return replaces ? call.get(0, call.heap.string("")) : call.self;
}

Result runAttr(Call &call) {
  MOE_ASSIGN_OR_RETURN(std::string_view name, call.text(0, ""));
  return call.interpreter.attribute(call.self, name, false);
}

/// Hugging Face's tojson, not Jinja's: nothing is escaped for HTML.
Result runTojson(Call &call) {
  JsonStyle style;
  style.ensureAscii = call.flag(0);
  style.sortKeys = call.flag(3);
  Value indent = call.get(1, Value::none());
  if (indent.is(Kind::String)) {
    style.indent = indent.text();
    style.isIndented = true;
  } else if (!indent.is(Kind::None)) {
    MOE_ASSIGN_OR_RETURN(int64_t width, call.integer(1, 0));
    style.indent = std::string(
        static_cast<size_t>(std::clamp<int64_t>(width, 0, 1000)), ' ');
    style.isIndented = true;
  }
  if (style.isIndented)
    style.itemSeparator = ",";
  if (call.has(2) && !call.arguments[2]->is(Kind::None)) {
    MOE_ASSIGN_OR_RETURN(std::vector<Value> separators,
                         iterate(call.heap, *call.arguments[2]));
    if (separators.size() != 2 || !separators[0].is(Kind::String) ||
        !separators[1].is(Kind::String))
      return failure("separators must be two strings");
    style.itemSeparator = separators[0].text();
    style.keySeparator = separators[1].text();
  }
  Text out(call.heap);
  MOE_RETURN_IF_ERROR(printJson(out, call.self, style));
  return text(call, std::move(out.str()));
}

constexpr Builtin filters[] = {
    {"upper", "", runUpper},
    {"lower", "", runLower},
    {"capitalize", "", runCapitalize},
    {"title", "", runTitle},
    {"trim", "chars", runTrim},
    {"replace", "old new count", runReplace},
    {"indent", "width first blank", runIndent},
    {"center", "width", runCenter},
    {"truncate", "length killwords end leeway", runTruncate},
    {"wordcount", "", runWordcount},
    {"striptags", "", runStriptags},
    {"string", "", runString},
    {"escape", "", runEscape},
    {"e", "", runEscape},
    {"forceescape", "", runForceEscape},
    {"safe", "", runSafe},
    {"urlencode", "", runUrlencode},
    {"format", "*", runFormat},
    {"int", "default base", runInt},
    {"float", "default", runFloat},
    {"abs", "", runAbs},
    {"round", "precision method", runRound},
    {"filesizeformat", "binary", runFilesizeformat},
    {"default", "default_value boolean", runDefault},
    {"d", "default_value boolean", runDefault},
    {"attr", "name", runAttr},
    {"tojson", "ensure_ascii indent separators sort_keys", runTojson},
};

} // namespace

std::span<const Builtin> stringFilters() { return filters; }

} // namespace moert::jinja
