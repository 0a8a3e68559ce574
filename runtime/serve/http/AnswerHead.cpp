#include "runtime/serve/http/AnswerHead.h"

#include "runtime/serve/http/Words.h"

#include <algorithm>
#include <ctime>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <iterator>

namespace moert {

namespace {
std::string_view reasonPhrase(int status) {
  switch (status) {
  case 200:
    return "OK";
  case 201:
    return "Created";
  case 202:
    return "Accepted";
  case 204:
    return "No Content";
  case 304:
    return "Not Modified";
  case 400:
    return "Bad Request";
  case 401:
    return "Unauthorized";
  case 403:
    return "Forbidden";
  case 404:
    return "Not Found";
  case 405:
    return "Method Not Allowed";
  case 408:
    return "Request Timeout";
  case 409:
    return "Conflict";
  case 413:
    return "Content Too Large";
  case 417:
    return "Expectation Failed";
  case 422:
    return "Unprocessable Content";
  case 429:
    return "Too Many Requests";
  case 431:
    return "Request Header Fields Too Large";
  case 500:
    return "Internal Server Error";
  case 501:
    return "Not Implemented";
  case 503:
    return "Service Unavailable";
  case 505:
    return "HTTP Version Not Supported";
  default:
    return "Status";
  }
}

bool framesBody(std::string_view name) {
  return equalsIgnoringCase(name, "content-length") ||
         equalsIgnoringCase(name, "transfer-encoding") ||
         equalsIgnoringCase(name, "connection") ||
         equalsIgnoringCase(name, "content-type");
}

bool has(const HttpHeaders &headers, std::string_view name) {
  return std::any_of(headers.begin(), headers.end(), [&](const auto &header) {
    return equalsIgnoringCase(header.first, name);
  });
}

void add(std::string &head, std::string_view name, std::string_view value) {
  if (name.empty() || !std::all_of(name.begin(), name.end(), isTokenCharacter))
    return;
  head += name;
  head += ": ";
  std::transform(value.begin(), value.end(), std::back_inserter(head),
                 [](unsigned char c) {
                   bool isControl = (c < 0x20 && c != '\t') || c == 0x7f;
                   return isControl ? ' ' : char(c);
                 });
  head += "\r\n";
}
} // namespace

bool hasBody(int status) {
  return status >= 200 && status != 204 && status != 304;
}

std::string answerHead(const AnswerForm &form, int status,
                       std::string_view contentType, const HttpHeaders &headers,
                       const BodyFraming &framing) {
  std::string head =
      fmt::format("HTTP/1.1 {} {}\r\n", status, reasonPhrase(status));
  add(head, "Date",
      fmt::format("{:%a, %d %b %Y %H:%M:%S} GMT",
                  fmt::gmtime(std::time(nullptr))));
  if (hasBody(status)) {
    if (!contentType.empty())
      add(head, "Content-Type", contentType);
    if (framing.length)
      add(head, "Content-Length", std::to_string(*framing.length));
    else if (form.isHttp11)
      add(head, "Transfer-Encoding", "chunked");
  }
  if (!framing.keepAlive)
    add(head, "Connection", "close");
  else if (!form.isHttp11)
    add(head, "Connection", "keep-alive");
  add(head, "X-Content-Type-Options", "nosniff");
  for (const auto &[name, value] : headers)
    if (!framesBody(name))
      add(head, name, value);
  for (const auto &[name, value] : form.headers)
    // Headers by which the answer varies are joined.
    if (name == "Vary" || !has(headers, name))
      add(head, name, value);
  if (!has(headers, "Cache-Control"))
    add(head, "Cache-Control", "no-store");
  head += "\r\n";
  return head;
}

} // namespace moert
