// The hosts and origins of Security.h.

#include "runtime/base/Text.h"
#include "runtime/serve/http/Security.h"
#include "runtime/serve/http/Words.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cstring>

namespace moert {

namespace {
Status malformedHost(std::string_view text) {
  return Status(StatusCode::InvalidFile, "the host " + moert::quoted(text) +
                                             " is not a name or an address");
}

bool isHostCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_';
}

bool isPort(std::string_view text) {
  return text.size() <= 5 && std::all_of(text.begin(), text.end(), [](char c) {
           return c >= '0' && c <= '9';
         });
}

/// An address in network order: 4 or 16 bytes, or none.
std::string addressBytes(std::string_view host) {
  char bytes[16];
  std::string text(host);
  if (inet_pton(AF_INET, text.c_str(), bytes) == 1)
    return std::string(bytes, 4);
  if (inet_pton(AF_INET6, text.c_str(), bytes) != 1)
    return "";
  // ::ffff:127.0.0.1 is 127.0.0.1.
  constexpr char kMapped[12] = {0, 0, 0, 0, 0,          0,
                                0, 0, 0, 0, char(0xff), char(0xff)};
  if (std::memcmp(bytes, kMapped, sizeof(kMapped)) == 0)
    return std::string(bytes + 12, 4);
  return std::string(bytes, 16);
}

/// "https://example.org:8443" as its host and the port that it means.
StatusOr<HostPort> parseOrigin(std::string_view origin, std::string &port) {
  for (auto [scheme, usual] : {std::pair("http://", "80"), {"https://", "443"}})
    if (equalsIgnoringCase(origin.substr(0, std::strlen(scheme)), scheme)) {
      MOE_ASSIGN_OR_RETURN(HostPort parts,
                           parseHost(origin.substr(std::strlen(scheme))));
      port = usual;
      return parts;
    }
  return malformedHost(origin);
}
} // namespace

StatusOr<HostPort> parseHost(std::string_view text) {
  HostPort result;
  std::string_view rest = text;
  if (rest.starts_with('[')) {
    size_t end = rest.find(']');
    if (end == rest.npos)
      return malformedHost(text);
    result.host = lowerCase(rest.substr(1, end - 1));
    if (addressBytes(result.host).empty() ||
        result.host.find(':') == std::string::npos)
      return malformedHost(text);
    rest.remove_prefix(end + 1);
  } else {
    size_t end = rest.find(':');
    result.host = lowerCase(rest.substr(0, end));
    if (!std::all_of(result.host.begin(), result.host.end(), isHostCharacter))
      return malformedHost(text);
    if (result.host.ends_with('.'))
      result.host.pop_back();
    if (result.host.empty())
      return malformedHost(text);
    rest = end == rest.npos ? std::string_view() : rest.substr(end);
  }
  if (rest.empty())
    return result;
  if (!rest.starts_with(':') || !isPort(rest.substr(1)))
    return malformedHost(text);
  result.port = rest.substr(1);
  return result;
}

bool isAddress(std::string_view host) { return !addressBytes(host).empty(); }

bool isLoopbackHost(std::string_view host) {
  if (host == "localhost" || host.ends_with(".localhost"))
    return true;
  std::string bytes = addressBytes(host);
  if (bytes.size() == 4)
    return bytes[0] == 127;
  return bytes.size() == 16 && bytes == std::string(15, '\0') + '\1';
}

bool isHostAllowed(const HostRule &rule, std::string_view host) {
  if (isLoopbackHost(host))
    return true;
  auto named = [&](const std::string &name) {
    return equalsIgnoringCase(name, host);
  };
  if (std::any_of(rule.allowed.begin(), rule.allowed.end(), named))
    return true;
  std::string bytes = addressBytes(host);
  if (bytes.empty())
    return false;
  return std::any_of(rule.bound.begin(), rule.bound.end(),
                     [&](const std::string &bound) {
                       std::string own = addressBytes(bound);
                       bool isEvery = own.find_first_not_of('\0') == own.npos;
                       return !own.empty() && (isEvery || own == bytes);
                     });
}

bool isSameOrigin(std::string_view origin, const HostPort &host) {
  std::string usualPort;
  StatusOr<HostPort> own = parseOrigin(origin, usualPort);
  if (!own || own->host != host.host)
    return false;
  auto portOf = [&](const HostPort &of) {
    return of.port.empty() ? usualPort : of.port;
  };
  return portOf(*own) == portOf(host);
}

bool isOriginListed(std::span<const std::string> allowed,
                    std::string_view origin) {
  return std::any_of(allowed.begin(), allowed.end(),
                     [&](const std::string &entry) {
                       return entry == "*" || equalsIgnoringCase(entry, origin);
                     });
}

} // namespace moert
