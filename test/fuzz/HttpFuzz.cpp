// What arrives on a connection: requests, cut anywhere, their targets and
// hosts. The first byte says how the bytes are cut.
#include "runtime/serve/http/RequestReader.h"
#include "runtime/serve/http/RequestTarget.h"
#include "test/fuzz/Fuzz.h"

using namespace moert;
using moefuzz::require;

namespace {
constexpr uint64_t kBody = 4096;

void checkHead(const RequestHead &head) {
  require(!head.method.empty() && !head.target.empty(), "a head is complete");
  require(!head.isChunked || head.contentLength == 0, "a body has one length");
  if (StatusOr<RequestTarget> target = parseTarget(head.target)) {
    require(!target->path.empty(), "a target has a path");
    require(("/" + target->path + "/").find("/../") == std::string::npos,
            "no path leaves its folder", target->path);
  }
  auto host = head.headers.find("host");
  if (host == head.headers.end())
    return;
  StatusOr<HostPort> parsed = parseHost(host->second);
  if (parsed)
    isHostAllowed({}, host->second);
  auto origin = head.headers.find("origin");
  if (parsed && origin != head.headers.end())
    isSameOrigin(origin->second, *parsed);
}

/// Feeds a reader piece by piece, as a connection does.
class Connection {
public:
  Connection(std::string_view bytes, size_t piece)
      : rest_(bytes), piece_(piece) {}

  /// Reads one request. Returns whether another one may follow.
  bool readRequest() {
    while (true) {
      pending_.erase(0, pending_.find_first_not_of("\r\n"));
      if (!pending_.empty())
        break;
      if (!receive())
        return false;
    }
    RequestReader reader(/*headerBytes=*/2048);
    while (true) {
      const size_t used = reader.feed(pending_);
      require(used <= pending_.size(), "a reader uses what it got");
      pending_.erase(0, used);
      switch (reader.state()) {
      case RequestReader::State::Head:
      case RequestReader::State::Body:
        if (!receive())
          return false;
        break;
      case RequestReader::State::AfterHead:
        checkHead(reader.head());
        reader.readBody(kBody);
        require(reader.state() != RequestReader::State::AfterHead,
                "a body follows a head");
        break;
      case RequestReader::State::Done:
        require(reader.takeBody().size() <= kBody, "a body has a limit");
        return true;
      case RequestReader::State::Failed:
        require(reader.refusal().status >= 400 && reader.refusal().status < 600,
                "a refusal has a status");
        return false;
      }
    }
  }

private:
  bool receive() {
    const std::string_view arrived = rest_.substr(0, piece_);
    pending_ += arrived;
    rest_.remove_prefix(arrived.size());
    return !arrived.empty();
  }

  std::string pending_;
  std::string_view rest_;
  size_t piece_;
};
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  moefuzz::Input input(data, size);
  const size_t piece = size_t(input.byte()) + 1;
  Connection connection(input.rest(), piece);
  while (connection.readRequest()) {
  }
  return 0;
}
