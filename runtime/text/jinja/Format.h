//===- Format.h - Python's %, str.format and strftime -----------*- C++ -*-===//

#ifndef MOE_RUNTIME_TEXT_JINJA_FORMAT_H
#define MOE_RUNTIME_TEXT_JINJA_FORMAT_H

#include "runtime/text/jinja/Value.h"

namespace moert::jinja {

/// Evaluates `format % arguments`: a tuple, a dict of names, or one value.
Result formatPercent(Heap &heap, const Value &format, const Value &arguments);
/// Evaluates format.format(*positional, **named): fields by index or name,
/// without attributes, with fill, alignment, sign, width, precision and type.
Result formatBraces(Heap &heap, std::string_view format,
                    std::span<const Value> positional, const Dict &named);
/// Returns `text` with &, <, >, " and ' replaced by HTML entities.
std::string escapeHtml(Heap &heap, std::string_view text);

/// A point in local time.
struct DateTime {
  int year = 1970, month = 1, day = 1, hour = 0, minute = 0, second = 0;
};
/// Parses "YYYY-MM-DD HH:MM:SS"; the day must exist.
StatusOr<DateTime> parseDateTime(std::string_view text);
DateTime localNow();
/// Formats a time like strftime in the C locale; %f is 000000, and %z and %Z
/// are empty, as for Python's datetime.now().
std::string formatTime(Heap &heap, const DateTime &time,
                       std::string_view format);

} // namespace moert::jinja

#endif // MOE_RUNTIME_TEXT_JINJA_FORMAT_H
