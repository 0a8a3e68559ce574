//===- StaticFiles.h - Files that are part of the program -------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_HTTP_STATICFILES_H
#define MOE_RUNTIME_SERVE_HTTP_STATICFILES_H

#include "runtime/serve/Exchange.h"

#include <span>
#include <string>
#include <string_view>

namespace moert {

/// A file that moe_embed_files() (EmbedFiles.cmake) made part of the program.
struct StaticFile {
  std::string_view path; ///< A path such as "/page.js"; index.html is "/" too.
  std::string_view contentType;
  std::string_view bytes;
  /// The compressed bytes; "" if compression saves nothing.
  std::string_view gzip;
  std::string_view etag; ///< Has its quotes, and changes with the bytes.
};

/// Allows a page its own scripts, styles, fonts and connections, and nothing
/// inline or from elsewhere.
inline constexpr std::string_view kStrictContentSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' "
    "data: blob:; font-src 'self'; connect-src 'self'; manifest-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Returns the file at a path, or null.
const StaticFile *findStatic(std::span<const StaticFile> files,
                             std::string_view path);

struct StaticAnswer {
  int status = 200; ///< 304 if the client has these bytes.
  std::string_view contentType, body;
  HttpHeaders headers;
};

/// Returns the answer to a GET or HEAD of a file: compressed if the client
/// takes that, to be kept by the client, which asks each time whether there is
/// a newer one. `request` has names in lower case.
StaticAnswer
answerStatic(const StaticFile &file, std::string_view contentSecurityPolicy,
             const std::map<std::string, std::string, std::less<>> &request);

/// Returns whether Accept-Encoding's value allows gzip.
bool acceptsGzip(std::string_view acceptEncoding);

/// Returns whether If-None-Match's value names the tag, or is "*".
bool namesTag(std::string_view ifNoneMatch, std::string_view etag);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_HTTP_STATICFILES_H
