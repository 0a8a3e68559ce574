#include "runtime/text/jinja/Format.h"

#include "runtime/text/jinja/Unicode.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>

namespace moert::jinja {

namespace {

/// Layout of a field, for % and {}.
struct Spec {
  std::string fill = " ";
  char align = 0; ///< '<', '>', '^' or '='; 0: the type decides.
  char sign = '-';
  bool alternate = false, grouping = false;
  uint32_t width = 0;
  std::optional<uint32_t> precision = {};
  char type = 0;
};

constexpr uint32_t mostWidth = 1 << 20, mostPrecision = 400;

/// Reads a number at `at`; returns false if there is none or it exceeds `most`.
bool readNumber(std::string_view text, size_t &at, uint32_t most,
                uint32_t &value) {
  value = 0;
  auto [end, error] =
      std::from_chars(text.data() + at, text.data() + text.size(), value);
  at = static_cast<size_t>(end - text.data());
  return error == std::errc() && value <= most;
}

std::string radix(Integer value, unsigned base, bool upper) {
  const char *names = upper ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string digits;
  bool isNegative = value < 0;
  // Unsigned, because the least integer has no positive counterpart.
  auto rest = static_cast<unsigned __int128>(value);
  if (isNegative)
    rest = -rest;
  for (; rest != 0; rest /= base) {
    auto digit = static_cast<size_t>(rest % base);
    digits += names[digit];
  }
  if (digits.empty())
    digits = "0";
  if (isNegative)
    digits += '-';
  std::ranges::reverse(digits);
  return digits;
}

void groupThousands(std::string &digits) {
  size_t first = digits.find_first_of("0123456789");
  size_t end = digits.find_first_not_of("0123456789", first);
  if (end == std::string::npos)
    end = digits.size();
  for (size_t i = end; i > first + 3; i -= 3)
    digits.insert(i - 3, 1, ',');
}

/// Returns the digits of a number in the format of `spec`, with its sign.
StatusOr<std::string> formatNumber(const Value &value, const Spec &spec) {
  std::string result;
  char type = spec.type;
  bool isWhole = value.isInteger() &&
                 (type == 0 || std::string_view("diuxXobc").find(type) !=
                                   std::string_view::npos);
  if (isWhole) {
    Integer number = value.integer();
    switch (type) {
    case 'x':
    case 'X':
      result = radix(number, 16, type == 'X');
      break;
    case 'o':
      result = radix(number, 8, false);
      break;
    case 'b':
      result = radix(number, 2, false);
      break;
    default:
      result = printInteger(number);
    }
    if (spec.alternate && type != 0 && type != 'd')
      result.insert(result[0] == '-' ? 1 : 0, std::string("0") + type);
  } else if (type == 0) {
    result = printFloat(value.number());
  } else {
    double number = value.number() * (type == '%' ? 100 : 1);
    char form[] = "%.*f";
    form[3] = type == '%' ? 'f' : type;
    char buffer[800];
    int precision = static_cast<int>(spec.precision.value_or(6));
    std::snprintf(buffer, sizeof buffer, form, precision, number);
    result = buffer;
    if (type == '%')
      result += '%';
  }
  if (spec.grouping)
    groupThousands(result);
  if (result[0] != '-' && spec.sign != '-')
    result.insert(0, 1, spec.sign);
  return result;
}

void pad(Text &out, std::string_view shown, const Spec &spec,
         char defaultAlign) {
  char align = spec.align ? spec.align : defaultAlign;
  size_t size = countCharacters(shown);
  size_t missing = spec.width > size ? spec.width - size : 0;
  size_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  if (align == '=' && !shown.empty() &&
      (shown[0] == '-' || shown[0] == '+' || shown[0] == ' ')) {
    out += shown.substr(0, 1);
    shown.remove_prefix(1);
  }
  out.append(left, spec.fill);
  out += shown;
  out.append(missing - left, spec.fill);
}

std::string firstCharacters(std::string_view text, uint32_t count) {
  std::u32string characters = decode(text);
  characters.resize(std::min<size_t>(characters.size(), count));
  return encode(characters);
}

Status needsNumber(char type, const Value &value) {
  return failure(std::string("%") + type +
                 " format: a number is required, not " +
                 std::string(typeName(value)));
}

Status appendPercent(Text &out, const Spec &spec, const Value &value) {
  Heap &heap = out.heap();
  std::string shown;
  switch (spec.type) {
  case 's':
  case 'r':
  case 'a':
    shown = spec.type == 's' ? str(heap, value) : repr(heap, value);
    if (spec.precision)
      shown = firstCharacters(shown, *spec.precision);
    pad(out, shown, spec, '>');
    return heap.status();
  case 'c':
    if (value.is(Kind::String) && countCharacters(value.text()) == 1)
      shown = value.text();
    else if (value.isInteger() && value.integer() >= 0 &&
             value.integer() <= 0x10FFFF)
      appendCharacter(shown, static_cast<char32_t>(value.integer()));
    else
      return failure("%c requires int or char");
    pad(out, shown, spec, '>');
    return heap.status();
  case 'd':
  case 'i':
  case 'u': {
    if (!value.isNumber())
      return needsNumber(spec.type, value);
    bool isOdd = value.is(Kind::Float) && !(std::abs(value.number()) < 1e37);
    if (isOdd)
      return failure("%d format: the number is too large");
    Value whole = value.isInteger()
                      ? value
                      : Value::of(static_cast<Integer>(value.number()));
    MOE_ASSIGN_OR_RETURN(shown, formatNumber(whole, spec));
    pad(out, shown, spec, '>');
    return heap.status();
  }
  case 'x':
  case 'X':
  case 'o':
    if (!value.isInteger())
      return needsNumber(spec.type, value);
    break;
  case 'e':
  case 'E':
  case 'f':
  case 'F':
  case 'g':
  case 'G':
    if (!value.isNumber())
      return needsNumber(spec.type, value);
    break;
  default:
    return failure(std::string("unsupported format character '") + spec.type +
                   "'");
  }
  MOE_ASSIGN_OR_RETURN(shown, formatNumber(value, spec));
  pad(out, shown, spec, '>');
  return heap.status();
}

/// Parses the format specification after the colon of a {} field.
StatusOr<Spec> parseSpec(std::string_view text) {
  Spec spec;
  size_t at = 0;
  constexpr std::string_view aligns = "<>^=";
  auto isAlign = [&](size_t i) {
    return i < text.size() && aligns.find(text[i]) != std::string_view::npos;
  };
  size_t first = text.empty() ? 0 : nextCharacter(text, 0);
  if (first > 0 && isAlign(first)) {
    spec.fill = text.substr(0, first);
    spec.align = text[first];
    at = first + 1;
  } else if (isAlign(0)) {
    spec.align = text[0];
    at = 1;
  }
  auto next = [&](char c) { return at < text.size() && text[at] == c; };
  if (next('+') || next('-') || next(' '))
    spec.sign = text[at++];
  if (next('#'))
    spec.alternate = true, ++at;
  if (next('0')) {
    if (!spec.align)
      spec.align = '=', spec.fill = "0";
    ++at;
  }
  Status bad =
      failure("format specifier '" + std::string(text) + "' is not supported");
  if (at < text.size() && text[at] >= '0' && text[at] <= '9' &&
      !readNumber(text, at, mostWidth, spec.width))
    return bad;
  if (next(','))
    spec.grouping = true, ++at;
  if (next('.')) {
    ++at;
    uint32_t precision = 0;
    if (!readNumber(text, at, mostPrecision, precision))
      return bad;
    spec.precision = precision;
  }
  if (at < text.size())
    spec.type = text[at++];
  if (at < text.size() ||
      std::string_view("\0sdxXobcfFeEgG%", 15).find(spec.type) ==
          std::string_view::npos)
    return bad;
  return spec;
}

Status appendField(Text &out, const Value &value, std::string_view format) {
  MOE_ASSIGN_OR_RETURN(Spec spec, parseSpec(format));
  Heap &heap = out.heap();
  bool isNumber = value.isNumber() && !(value.is(Kind::Bool) && !spec.type);
  if (isNumber && spec.type == 0 && spec.precision)
    spec.type = 'g';
  if (isNumber && spec.type != 's' && spec.type != 'c') {
    if (spec.type == 'd' && !value.isInteger())
      return failure("Unknown format code 'd' for object of type 'float'");
    MOE_ASSIGN_OR_RETURN(std::string shown, formatNumber(value, spec));
    pad(out, shown, spec, '>');
    return heap.status();
  }
  if (spec.type != 0 && spec.type != 's')
    return failure(std::string("Unknown format code '") + spec.type +
                   "' for object of type '" + std::string(typeName(value)) +
                   "'");
  std::string shown = str(heap, value);
  if (spec.precision)
    shown = firstCharacters(shown, *spec.precision);
  pad(out, shown, spec, '<');
  return heap.status();
}
} // namespace

Result formatPercent(Heap &heap, const Value &format, const Value &arguments) {
  std::string_view text = format.text();
  bool isTuple = arguments.is(Kind::Sequence) &&
                 arguments.sequence().flavor == Flavor::Tuple;
  std::span<const Value> values(&arguments, 1);
  if (isTuple)
    values = arguments.sequence().items;
  size_t used = 0;
  bool usedNames = false;
  Text out(heap);
  auto take = [&]() -> Result {
    if (used == values.size())
      return failure("not enough arguments for format string");
    return values[used++];
  };
  for (size_t i = 0; i < text.size();) {
    size_t percent = std::min(text.find('%', i), text.size());
    out += text.substr(i, percent - i);
    i = percent + 1;
    if (percent == text.size())
      break;
    Spec spec;
    std::optional<Value> named;
    if (i < text.size() && text[i] == '(') {
      size_t close = text.find(')', i);
      if (close == std::string_view::npos)
        return failure("incomplete format key");
      if (!arguments.is(Kind::Dict))
        return failure("format requires a mapping");
      std::string_view key = text.substr(i + 1, close - i - 1);
      const Value *found = arguments.dict().find(key);
      if (!found)
        return failure("the format names '" + std::string(key) +
                       "', which is not given");
      named = *found;
      usedNames = true;
      i = close + 1;
    }
    for (; i < text.size(); ++i) {
      if (text[i] == '-')
        spec.align = '<';
      else if (text[i] == '0' && spec.align != '<')
        spec.align = '=', spec.fill = "0";
      else if (text[i] == '+' || (text[i] == ' ' && spec.sign != '+'))
        spec.sign = text[i];
      else if (text[i] == '#')
        spec.alternate = true;
      else
        break;
    }
    auto readSize = [&](uint32_t most, uint32_t &size) -> Status {
      if (i < text.size() && text[i] == '*') {
        ++i;
        MOE_ASSIGN_OR_RETURN(Value given, take());
        if (!given.isInteger() || given.integer() < 0 || given.integer() > most)
          return failure("* needs a small number as its argument");
        size = static_cast<uint32_t>(given.integer());
        return Status::ok();
      }
      bool isDigit = i < text.size() && text[i] >= '0' && text[i] <= '9';
      if (isDigit && !readNumber(text, i, most, size))
        return failure("the width of a format field is too large");
      return Status::ok();
    };
    MOE_RETURN_IF_ERROR(readSize(mostWidth, spec.width));
    if (i < text.size() && text[i] == '.') {
      ++i;
      uint32_t precision = 0;
      MOE_RETURN_IF_ERROR(readSize(mostPrecision, precision));
      spec.precision = precision;
    }
    if (i == text.size())
      return failure("incomplete format");
    spec.type = text[i++];
    if (spec.type == '%') {
      out += '%';
      continue;
    }
    Value value;
    if (named) {
      value = *named;
    } else {
      MOE_ASSIGN_OR_RETURN(value, take());
    }
    // Zero padding applies to numbers only.
    if (std::string_view("src").find(spec.type) != std::string_view::npos &&
        spec.align == '=')
      spec.align = 0, spec.fill = " ";
    MOE_RETURN_IF_ERROR(appendPercent(out, spec, value));
  }
  if (used < values.size() && !usedNames && !arguments.is(Kind::Dict))
    return failure("not all arguments converted during string formatting");
  MOE_RETURN_IF_ERROR(heap.status());
  return heap.string(std::move(out.str()), format.string().markup);
}

Result formatBraces(Heap &heap, std::string_view text,
                    std::span<const Value> positional, const Dict &named) {
  Text out(heap);
  size_t automatic = 0;
  for (size_t i = 0; i < text.size();) {
    char c = text[i];
    bool isDoubled = i + 1 < text.size() && text[i + 1] == c;
    if (c != '{' && c != '}') {
      size_t end = std::min(text.find_first_of("{}", i), text.size());
      out += text.substr(i, end - i);
      i = end;
      continue;
    }
    if (isDoubled) {
      out += c;
      i += 2;
      continue;
    }
    size_t close = text.find('}', i);
    if (c == '}' || close == std::string_view::npos)
      return failure("Single '" + std::string(1, c) +
                     "' encountered in format string");
    std::string_view field = text.substr(i + 1, close - i - 1);
    i = close + 1;
    size_t colon = std::min(field.find(':'), field.size());
    std::string_view name = field.substr(0, colon);
    std::string_view format = field.substr(std::min(colon + 1, field.size()));
    char conversion = 0;
    if (name.size() > 1 && name[name.size() - 2] == '!') {
      conversion = name.back();
      name.remove_suffix(2);
    }
    const Value *value = nullptr;
    size_t at = 0;
    uint32_t index = 0;
    if (name.empty())
      value =
          automatic < positional.size() ? &positional[automatic++] : nullptr;
    else if (readNumber(name, at, UINT32_MAX, index) && at == name.size())
      value = index < positional.size() ? &positional[index] : nullptr;
    else
      value = named.find(name);
    if (!value)
      return failure("the format names field '" + std::string(name) +
                     "', which is not given");
    Value shown = *value;
    if (conversion)
      shown =
          heap.string(conversion == 's' ? str(heap, shown) : repr(heap, shown));
    MOE_RETURN_IF_ERROR(appendField(out, shown, format));
  }
  MOE_RETURN_IF_ERROR(heap.status());
  return heap.string(std::move(out.str()));
}

std::string escapeHtml(Heap &heap, std::string_view text) {
  Text out(heap);
  for (char c : text) {
    switch (c) {
    case '&':
      out += "&amp;";
      break;
    case '<':
      out += "&lt;";
      break;
    case '>':
      out += "&gt;";
      break;
    case '"':
      out += "&#34;";
      break;
    case '\'':
      out += "&#39;";
      break;
    default:
      out += c;
    }
  }
  return std::move(out.str());
}

StatusOr<DateTime> parseDateTime(std::string_view text) {
  constexpr std::string_view shape = "dddd-dd-dd dd:dd:dd";
  bool matches = text.size() == shape.size();
  for (size_t i = 0; matches && i < shape.size(); ++i)
    matches = shape[i] == 'd' ? text[i] >= '0' && text[i] <= '9'
                              : text[i] == shape[i];
  auto number = [&](size_t at, size_t size) {
    int value = 0;
    std::from_chars(text.data() + at, text.data() + at + size, value);
    return value;
  };
  if (matches) {
    DateTime time{number(0, 4),  number(5, 2),  number(8, 2),
                  number(11, 2), number(14, 2), number(17, 2)};
    bool isLeap =
        time.year % 4 == 0 && (time.year % 100 != 0 || time.year % 400 == 0);
    int days[] = {31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (time.year > 0 && time.month >= 1 && time.month <= 12 && time.day >= 1 &&
        time.day <= days[time.month - 1] && time.hour < 24 &&
        time.minute < 60 && time.second < 60)
      return time;
  }
  return Status(StatusCode::Usage,
                "strftime_now is '" + std::string(text.substr(0, 40)) +
                    "'; expected a time as \"YYYY-MM-DD HH:MM:SS\"");
}

DateTime localNow() {
  std::time_t now = std::time(nullptr);
  std::tm tm{};
  localtime_r(&now, &tm);
  return {tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday,
          tm.tm_hour,        tm.tm_min,     tm.tm_sec};
}

std::string formatTime(Heap &heap, const DateTime &time,
                       std::string_view format) {
  std::tm tm{};
  tm.tm_year = time.year - 1900;
  tm.tm_mon = time.month - 1;
  tm.tm_mday = time.day;
  tm.tm_hour = time.hour;
  tm.tm_min = time.minute;
  tm.tm_sec = time.second;
  timegm(&tm); // Sets the day of the week and of the year.
  tm.tm_isdst = -1;
  Text out(heap);
  // Formats one directive at a time, because strftime does not report its size.
  for (size_t i = 0; i < format.size();) {
    size_t percent = std::min(format.find('%', i), format.size());
    out += format.substr(i, percent - i);
    i = percent;
    if (i == format.size())
      break;
    size_t end = i + 1;
    while (end < format.size() &&
           std::string_view("-_0^#EO").find(format[end]) !=
               std::string_view::npos &&
           end < i + 4)
      ++end;
    char type = end < format.size() ? format[end] : '%';
    end = std::min(end + 1, format.size());
    std::string directive(format.substr(i, end - i));
    i = end;
    if (type == 'f') {
      out += "000000";
    } else if (static_cast<unsigned char>(type) >= 0x80) {
      out += directive;
      // The rest of the character follows as text.
    } else if (type != 'z' && type != 'Z') {
      char buffer[256];
      size_t size =
          std::strftime(buffer, sizeof buffer, directive.c_str(), &tm);
      out += std::string_view(buffer, size);
    }
  }
  return std::move(out.str());
}

} // namespace moert::jinja
