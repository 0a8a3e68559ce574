//===- Admission.h - Who may make which request -----------------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_HTTP_ADMISSION_H
#define MOE_RUNTIME_SERVE_HTTP_ADMISSION_H

#include "runtime/serve/http/Refusal.h"
#include "runtime/serve/http/RequestReader.h"
#include "runtime/serve/http/RequestTarget.h"
#include "runtime/serve/http/Security.h"

#include <optional>
#include <string>
#include <vector>

namespace moert {

struct AdmissionRules {
  HostRule hosts; ///< Rule for servers without keys.
  std::vector<std::string> allowedOrigins;
  std::vector<std::string> publicPaths; ///< Paths that need no key.
};

struct Admission {
  std::optional<Refusal> refusal; ///< Absent if the request may be answered.
  std::string client, group;      ///< Same meaning as in HttpRequest.
  HttpHeaders headers; ///< Headers for every answer, such as those for CORS.
  /// Whether the server itself answers 204 with the headers.
  bool isOptions = false;
};

/// Decides on a request by its method, host, origin and key. `keys` is null on
/// a server that asks for none. `isFile`: the path is that of a static file,
/// which everybody may get, because nothing in it is secret.
Admission admit(const AdmissionRules &rules, const KeyRing *keys,
                const RequestHead &head, const RequestTarget &target,
                bool isFile);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_HTTP_ADMISSION_H
