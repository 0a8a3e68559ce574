// Requests to every endpoint: the first byte chooses it, the second what the
// model replies, and the others are the body.
#include "test/fuzz/Fuzz.h"
#include "test/unit/ApiTestSupport.h"

using namespace moert::testing;
using moefuzz::require;

namespace {
const char *const kReplies[] = {
    "Hello",
    "",
    "<think>so</think>yes",
    "\xff\xfe \xc3",
    R"(<tool_call>{"name": "f", "arguments": {"x": 1}}</tool_call>)",
    R"(<tool_call>{"name": "f", "arg)",
    R"({"a": [1, "b"]})"};

/// Failed expectations end the process.
void breakOnFailure() {
  static const bool once = [] {
    GTEST_FLAG_SET(break_on_failure, true);
    return true;
  }();
  (void)once;
}

bool isStatus(int status) {
  // 302: addresses of other servers' pages. 501: what clients may ask for and
  // no model here can do.
  return status == 200 || status == 302 || (status >= 400 && status < 500) || status == 501 ||
         status == 503;
}
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  breakOnFailure();
  static const std::vector<std::string> routes = moert::apiRoutes();
  moefuzz::Input input(data, size);
  const std::string &route = routes[input.byte() % routes.size()];
  const size_t blank = route.find(' ');

  FakeHost host;
  host.backends.push_back(std::make_shared<FakeBackend>());
  host.backends[0]->replies = {kReplies[input.byte() % std::size(kReplies)]};
  host.backends[0]->bytesPerEvent = 3;
  moert::ApiSettings settings;
  settings.now = [] { return int64_t(1700000001); };
  settings.random = [] { return uint64_t(7); };
  auto handler = moert::makeApi(host, settings);

  auto answer = std::make_shared<FakeAnswer>();
  moert::HttpRequest request;
  request.method = route.substr(0, blank);
  request.path = route.substr(blank + 1);
  request.body = input.rest();
  handler(std::move(request), answer);
  require(answer->hasEnded, "a request is answered", route);
  require(isStatus(answer->status), "the status is the request's fault",
          std::to_string(answer->status) + " " + route + " " + answer->body);
  if (answer->type == "application/json")
    require(Json::accept(answer->body), "an answer is JSON", answer->body);
  return 0;
}
