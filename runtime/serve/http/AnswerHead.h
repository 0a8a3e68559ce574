//===- AnswerHead.h - The status line and headers of an answer --*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_HTTP_ANSWERHEAD_H
#define MOE_RUNTIME_SERVE_HTTP_ANSWERHEAD_H

#include "runtime/serve/Exchange.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace moert {

/// Properties that all answers to a request have in common.
struct AnswerForm {
  bool isHttp11 = true; ///< Whether the client speaks HTTP/1.1, not HTTP/1.0.
  bool isHead = false;  ///< Whether the client wants no body.
  /// Headers for every answer, such as those for CORS.
  HttpHeaders headers = {};
};

/// The way in which the client finds the end of the body.
struct BodyFraming {
  /// Absent if the length is unknown before the end.
  std::optional<uint64_t> length;
  bool keepAlive = true; ///< Whether another request may follow.
};

/// Whether an answer with this status has a body.
bool hasBody(int status);

/// Returns the status line and headers. `headers` win over those of the form
/// and over "Cache-Control: no-store"; those that frame the body are ignored,
/// and characters that would end a header early become spaces.
std::string answerHead(const AnswerForm &form, int status,
                       std::string_view contentType, const HttpHeaders &headers,
                       const BodyFraming &framing);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_HTTP_ANSWERHEAD_H
