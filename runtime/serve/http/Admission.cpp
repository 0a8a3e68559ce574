#include "runtime/serve/http/Admission.h"

#include "runtime/base/Text.h"
#include "runtime/serve/http/Words.h"

#include <algorithm>
#include <fmt/format.h>
#include <string_view>

namespace moert {

namespace {
constexpr std::string_view kMethods =
    "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
/// How long a browser may keep the answer to a preflight, in seconds.
constexpr std::string_view kPreflightAge = "600";

std::string_view valueOf(const HeaderMap &headers, std::string_view name) {
  auto found = headers.find(name);
  return found == headers.end() ? std::string_view() : found->second;
}

bool isKnownMethod(std::string_view method) {
  std::vector<std::string_view> known = split(kMethods, ',');
  return std::find(known.begin(), known.end(), method) != known.end();
}

/// Whether a text is a list of header names, which may be repeated in an
/// answer.
bool isNameList(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return isTokenCharacter(c) || c == ',' || c == ' ';
  });
}

/// Adds what lets the page of a listed origin read the answer.
void addCrossOrigin(Admission &admission, std::string_view origin,
                    const RequestHead &head) {
  HttpHeaders &headers = admission.headers;
  headers.emplace_back("Access-Control-Allow-Origin", origin);
  headers.emplace_back("Access-Control-Expose-Headers", "Retry-After");
  if (!admission.isOptions ||
      !head.headers.count("access-control-request-method"))
    return;
  headers.emplace_back("Access-Control-Allow-Methods", kMethods);
  std::string_view names =
      valueOf(head.headers, "access-control-request-headers");
  if (!names.empty() && isNameList(names))
    headers.emplace_back("Access-Control-Allow-Headers", names);
  if (valueOf(head.headers, "access-control-request-private-network") == "true")
    headers.emplace_back("Access-Control-Allow-Private-Network", "true");
  headers.emplace_back("Access-Control-Max-Age", kPreflightAge);
}

Refusal noKey(bool wasSent) {
  return {.status = 401,
          .message = wasSent
                         ? "this server does not know the key; check it"
                         : "this server asks for a key; send it in the header "
                           "\"Authorization: Bearer KEY\" or "
                           "\"x-api-key: KEY\"",
          .headers = {{"WWW-Authenticate", "Bearer realm=\"moert\""}}};
}
} // namespace

Admission admit(const AdmissionRules &rules, const KeyRing *keys,
                const RequestHead &head, const RequestTarget &target,
                bool isFile) {
  Admission admission;
  auto refuse = [&](Refusal refusal) {
    admission.refusal = std::move(refusal);
    return admission;
  };
  if (!isKnownMethod(head.method))
    return refuse({.status = 501,
                   .message = fmt::format("the method {} is not supported",
                                          moert::quoted(head.method)),
                   .headers = {{"Allow", std::string(kMethods)}}});
  admission.isOptions = head.method == "OPTIONS";
  if (target.path == "*" && !admission.isOptions)
    return refuse({.status = 400, .message = "\"*\" is no path"});

  // The address in the request line wins over the header (RFC 9112).
  std::string hostText = target.authority;
  if (hostText.empty())
    hostText = valueOf(head.headers, "host");
  HostPort host;
  if (!hostText.empty() || head.isHttp11) {
    StatusOr<HostPort> parsed = parseHost(hostText);
    if (!parsed)
      return refuse({.status = 400, .message = parsed.status().message()});
    host = *std::move(parsed);
    if (!keys && !isHostAllowed(rules.hosts, host.host))
      return refuse({.status = 403,
                     .message = fmt::format(
                         "this server does not answer to the host {}; allow it "
                         "with --allow-host",
                         moert::quoted(host.host))});
  }

  if (std::string_view origin = valueOf(head.headers, "origin");
      !origin.empty()) {
    admission.headers.emplace_back("Vary", "Origin");
    if (isOriginListed(rules.allowedOrigins, origin))
      addCrossOrigin(admission, origin, head);
    else if (!isFile && !isSameOrigin(origin, host))
      return refuse(
          {.status = 403,
           .message = fmt::format("web pages of {} may not use this server; "
                                  "allow them with --allow-origin",
                                  moert::quoted(origin))});
  } else if (valueOf(head.headers, "sec-fetch-site") == "cross-site" &&
             !isFile && !isOriginListed(rules.allowedOrigins, "*")) {
    // Browsers send no Origin with a GET whose answer the page cannot read.
    return refuse({.status = 403,
                   .message = "web pages elsewhere may not use this server; "
                              "allow them with --allow-origin"});
  }
  if (admission.isOptions) {
    admission.headers.emplace_back("Allow", kMethods);
    return admission;
  }
  if (isFile && head.method != "GET" && head.method != "HEAD")
    return refuse({.status = 405,
                   .message = fmt::format("{} can only be read", target.path),
                   .headers = {{"Allow", "GET, HEAD"}}});

  if (!keys)
    return admission;
  std::vector<std::string_view> presented = presentedKeys(head.headers);
  for (std::string_view key : presented)
    if (const KeyRing::Client *client = keys->clientOf(key)) {
      admission.client = client->name;
      admission.group = client->group;
    }
  bool isPublic =
      isFile || std::find(rules.publicPaths.begin(), rules.publicPaths.end(),
                          target.path) != rules.publicPaths.end();
  if (admission.client.empty() && !isPublic)
    return refuse(noKey(!presented.empty()));
  return admission;
}

} // namespace moert
