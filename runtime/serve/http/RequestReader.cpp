#include "runtime/serve/http/RequestReader.h"

#include "runtime/base/Text.h"
#include "runtime/serve/http/Words.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/parser.hpp>
#include <fmt/format.h>

namespace moert {

namespace {
namespace http = boost::beast::http;
using boost::system::error_code;

/// Bytes of an announced body that are allocated before they arrive.
constexpr uint64_t kMostReservedBytes = uint64_t(1) << 20;

/// A body in a string, which does not allocate what is only announced.
struct Body {
  using value_type = std::string;
  class reader {
  public:
    template <bool isRequest, class Fields>
    reader(http::header<isRequest, Fields> &, std::string &body)
        : body_(body) {}
    void init(const boost::optional<uint64_t> &length, error_code &error) {
      length_ = length.value_or(UINT64_MAX);
      if (length)
        body_.reserve(size_t(std::min(*length, kMostReservedBytes)));
      error = {};
    }
    template <class Buffers>
    size_t put(const Buffers &buffers, error_code &error) {
      error = {};
      size_t bytes = 0;
      for (boost::asio::const_buffer part :
           boost::beast::buffers_range_ref(buffers)) {
        // The size doubles, but not beyond the announced one.
        const size_t needed = body_.size() + part.size();
        if (needed > body_.capacity())
          body_.reserve(std::max(
              needed, size_t(std::min<uint64_t>(length_, 2 * needed))));
        body_.append(static_cast<const char *>(part.data()), part.size());
        bytes += part.size();
      }
      return bytes;
    }
    void finish(error_code &error) { error = {}; }

  private:
    std::string &body_;
    uint64_t length_ = UINT64_MAX; ///< Length as announced; UINT64_MAX: none.
  };
};

/// Headers of which a second one would change the meaning of the first.
bool isSingle(std::string_view name) {
  return name == "host" || name == "content-length" ||
         name == "transfer-encoding" || name == "authorization" ||
         name == "x-api-key" || name == "api-key" || name == "origin" ||
         name == "content-type";
}
} // namespace

struct RequestReader::Parser : http::request_parser<Body> {};

RequestReader::RequestReader(size_t headerBytes)
    : parser_(std::make_unique<Parser>()) {
  parser_->eager(false);
  parser_->header_limit(uint32_t(headerBytes));
  parser_->body_limit(boost::none);
}

RequestReader::~RequestReader() = default;

void RequestReader::fail(int status, std::string message) {
  state_ = State::Failed;
  refusal_ = {status, std::move(message)};
}

/// Whether a line of the headers goes on the next one (RFC 9112, 5.2), which
/// proxies and servers read differently. The bytes begin within the headers,
/// `atLine` says whether at the beginning of a line.
static bool hasFoldedLine(std::string_view bytes, bool atLine) {
  auto isSpace = [&](size_t at) {
    return at < bytes.size() && (bytes[at] == ' ' || bytes[at] == '\t');
  };
  if (atLine && isSpace(0))
    return true;
  const size_t end = std::min(bytes.find("\r\n\r\n"), bytes.size());
  for (size_t line = bytes.find("\r\n"); line < end;
       line = bytes.find("\r\n", line + 2))
    if (isSpace(line + 2))
      return true;
  return false;
}

size_t RequestReader::feed(std::string_view bytes) {
  size_t used = 0;
  if (state_ == State::Head && hasFoldedLine(bytes, hasLine_)) {
    fail(400, "a line of the headers begins with a space: send each header on "
              "one line");
    return 0;
  }
  while (used < bytes.size() &&
         (state_ == State::Head || state_ == State::Body)) {
    error_code error;
    size_t step = parser_->put(
        boost::asio::buffer(bytes.data() + used, bytes.size() - used), error);
    used += step;
    hasLine_ |= step > 0;
    if (error == http::error::need_more)
      return used;
    if (error == http::error::header_limit)
      fail(431, "the request's headers are too long; send fewer or shorter "
                "ones");
    else if (error == http::error::body_limit)
      fail(413, "the request's body is too large");
    else if (error == http::error::bad_version)
      fail(505, "the server speaks HTTP/1.1 and HTTP/1.0");
    else if (error)
      fail(400,
           fmt::format("the request is not valid HTTP: {}", error.message()));
    else if (state_ == State::Head && parser_->is_header_done())
      takeHead();
    else if (state_ == State::Body && parser_->is_done())
      state_ = State::Done;
  }
  return used;
}

void RequestReader::takeHead() {
  state_ = State::AfterHead;
  const auto &request = parser_->get();
  head_.method = std::string(request.method_string());
  head_.target = std::string(request.target());
  head_.isHttp11 = request.version() >= 11;
  head_.keepAlive = parser_->keep_alive();
  for (const auto &field : request) {
    std::string name = lowerCase(field.name_string());
    std::string_view value(field.value().data(), field.value().size());
    auto [place, isNew] = head_.headers.emplace(name, value);
    if (isNew)
      continue;
    if (isSingle(name))
      return fail(400, fmt::format("the request has two {} headers", name));
    place->second += name == "cookie" ? "; " : ", ";
    place->second += value;
  }
  auto length = head_.headers.find("content-length");
  auto encoding = head_.headers.find("transfer-encoding");
  if (encoding != head_.headers.end()) {
    if (length != head_.headers.end())
      return fail(400, "the request has both Content-Length and "
                       "Transfer-Encoding");
    if (!head_.isHttp11)
      return fail(400, "HTTP/1.0 has no Transfer-Encoding");
    if (!equalsIgnoringCase(encoding->second, "chunked"))
      return fail(501,
                  fmt::format("Transfer-Encoding {} is not supported; send "
                              "\"chunked\" or a Content-Length",
                              moert::quoted(encoding->second)));
    head_.isChunked = true;
  } else if (auto announced = parser_->content_length()) {
    head_.contentLength = *announced;
  }
  if (head_.isHttp11 && !head_.headers.count("host"))
    return fail(400, "the request has no Host header");
  if (auto expect = head_.headers.find("expect");
      expect != head_.headers.end()) {
    if (!equalsIgnoringCase(expect->second, "100-continue"))
      return fail(417, fmt::format("the expectation {} is not supported",
                                   moert::quoted(expect->second)));
    head_.expectsContinue = head_.isHttp11;
  }
}

void RequestReader::readBody(uint64_t bodyBytes) {
  if (head_.contentLength > bodyBytes)
    return fail(413, fmt::format("the request's body has {} bytes; the server "
                                 "takes {}",
                                 head_.contentLength, bodyBytes));
  parser_->body_limit(bodyBytes);
  state_ = parser_->is_done() ? State::Done : State::Body;
}

size_t RequestReader::bodySize() const { return parser_->get().body().size(); }

std::string RequestReader::takeBody() {
  return std::move(parser_->get().body());
}

} // namespace moert
