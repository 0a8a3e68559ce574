#include "runtime/serve/http/StaticFiles.h"

#include "runtime/serve/http/Words.h"

#include <algorithm>

namespace moert {

const StaticFile *findStatic(std::span<const StaticFile> files,
                             std::string_view path) {
  auto found =
      std::find_if(files.begin(), files.end(),
                   [&](const StaticFile &file) { return file.path == path; });
  return found == files.end() ? nullptr : &*found;
}

bool acceptsGzip(std::string_view acceptEncoding) {
  // The coding's own entry counts, wherever "*" stands.
  bool any = false;
  for (std::string_view entry : split(acceptEncoding, ',')) {
    std::vector<std::string_view> parts = split(entry, ';');
    bool refused = false;
    for (std::string_view part : std::span(parts).subspan(1))
      if (part.size() >= 3 && equalsIgnoringCase(part.substr(0, 2), "q="))
        // The value has only zeros: q=0, q=0.000.
        refused = part.find_first_not_of("0.", 2) == part.npos;
    if (equalsIgnoringCase(parts[0], "gzip"))
      return !refused;
    if (parts[0] == "*")
      any = !refused;
  }
  return any;
}

bool namesTag(std::string_view ifNoneMatch, std::string_view etag) {
  for (std::string_view tag : split(ifNoneMatch, ',')) {
    // A proxy that compresses makes a tag weak; the content is the same.
    if (tag.starts_with("W/"))
      tag.remove_prefix(2);
    if (tag == etag || tag == "*")
      return true;
  }
  return false;
}

StaticAnswer
answerStatic(const StaticFile &file, std::string_view contentSecurityPolicy,
             const std::map<std::string, std::string, std::less<>> &request) {
  auto value = [&](std::string_view name) -> std::string_view {
    auto found = request.find(name);
    return found == request.end() ? std::string_view() : found->second;
  };
  StaticAnswer answer;
  answer.contentType = file.contentType;
  answer.headers = {
      {"ETag", std::string(file.etag)},
      {"Cache-Control", "no-cache"},
      {"Vary", "Accept-Encoding"},
      {"Content-Security-Policy", std::string(contentSecurityPolicy)},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Opener-Policy", "same-origin"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
  };
  if (namesTag(value("if-none-match"), file.etag)) {
    answer.status = 304;
    return answer;
  }
  bool compressed = !file.gzip.empty() && acceptsGzip(value("accept-encoding"));
  answer.body = compressed ? file.gzip : file.bytes;
  if (compressed)
    answer.headers.emplace_back("Content-Encoding", "gzip");
  return answer;
}

} // namespace moert
