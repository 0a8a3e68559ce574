#include "runtime/serve/http/AccessLog.h"

#include "runtime/base/Text.h"

#include <ctime>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace moert {

namespace {
/// Returns a time as "2026-11-25T22:52:56.123Z".
std::string isoTime(std::chrono::system_clock::time_point time) {
  using namespace std::chrono;
  auto milliseconds = floor<std::chrono::milliseconds>(time);
  auto seconds = floor<std::chrono::seconds>(milliseconds);
  std::time_t count = system_clock::to_time_t(seconds);
  std::tm parts = {};
  gmtime_r(&count, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
                     parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min, parts.tm_sec,
                     (milliseconds - seconds).count());
}
} // namespace

std::string loggedText(std::string_view text) {
  if (text.size() <= kMostLoggedBytes)
    return escaped(text);
  return escaped(text.substr(0, kMostLoggedBytes)) + "...";
}

std::string accessLine(const AccessRecord &record) {
  return fmt::format(
      "{} {} {} \"{} {}\" {} {}B {:.1f}ms{} \"{}\"", isoTime(record.time),
      record.peer, record.client.empty() ? "-" : record.client, record.method,
      record.path, record.status, record.bytes, record.milliseconds,
      record.cut ? " cut" : "", record.userAgent);
}

std::string accessJson(const AccessRecord &record) {
  nlohmann::ordered_json line = {{"time", isoTime(record.time)},
                                 {"peer", record.peer},
                                 {"client", record.client},
                                 {"method", record.method},
                                 {"path", record.path},
                                 {"status", record.status},
                                 {"cut", record.cut},
                                 {"bytes", record.bytes},
                                 {"ms", record.milliseconds},
                                 {"user_agent", record.userAgent}};
  return line.dump(-1, ' ', true,
                   nlohmann::ordered_json::error_handler_t::replace);
}

} // namespace moert
