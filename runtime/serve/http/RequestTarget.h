//===- RequestTarget.h - The path and query of a request --------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_HTTP_REQUESTTARGET_H
#define MOE_RUNTIME_SERVE_HTTP_REQUESTTARGET_H

#include "runtime/base/Status.h"

#include <map>
#include <string>
#include <string_view>

namespace moert {

struct RequestTarget {
  std::string path; ///< Decoded path, such as "/v1/models", or "*".
  /// Decoded; of equal names, the last one counts.
  std::map<std::string, std::string> query;
  /// The host and port of "http://host:port/path"; else "".
  std::string authority;
};

/// Takes the second word of a request line apart: "/path?query",
/// "http://host/path?query" or "*". Fails with InvalidFile for a wrong
/// percent-encoding, for control characters and bytes that are not UTF-8, for
/// segments "." and ".." and for a fragment.
StatusOr<RequestTarget> parseTarget(std::string_view target);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_HTTP_REQUESTTARGET_H
