// Requests in the form of client programs: test/data/clients has two or more of
// each, and says where their form is from.
#include "ApiTestSupport.h"

#include <filesystem>
#include <fstream>

using namespace moert;
using namespace moert::testing;

namespace {

Json readFile(const std::filesystem::path &path) {
  std::ifstream file(path);
  Json json = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  EXPECT_TRUE(json.is_object()) << path;
  return json;
}

/// Whether a stream is complete, as its interface ends it.
bool hasEnded(const FakeAnswer &answer) {
  const Json last = answer.events().back();
  if (last == "[DONE]")
    return true;
  if (last.contains("done"))
    return last["done"] == true;
  return last["type"] == "message_stop" || last["type"] == "response.completed";
}

TEST_F(ApiTest, RequestsOfClientProgramsAreAnswered) {
  model().modelFacts.contextTokens = 1 << 20;
  size_t clients = 0;
  for (const auto &entry :
       std::filesystem::directory_iterator(MOE_CLIENT_REQUESTS)) {
    if (entry.path().extension() != ".json")
      continue;
    ++clients;
    const Json file = readFile(entry.path());
    for (const char *key : {"client", "version", "source"})
      EXPECT_TRUE(file.contains(key)) << entry.path();
    EXPECT_GE(file["requests"].size(), 2u) << entry.path();
    for (const Json &request : file["requests"]) {
      SCOPED_TRACE(entry.path().string() + request["path"].dump());
      const Json body = request["body"];
      auto answer = post(request["path"], body);
      ASSERT_EQ(answer->status, 200) << answer->body;
      EXPECT_TRUE(!answer->isStream || hasEnded(*answer)) << answer->body;
      size_t at = 0;
      for (const Json &text : request["prompt"]) {
        const std::string prompt = asked().promptText;
        const size_t found =
            prompt.find(text.get_ref<const std::string &>(), at);
        ASSERT_NE(found, prompt.npos) << text << " is not in " << prompt;
        at = found;
      }
    }
  }
  EXPECT_GE(clients, 12u);
}

} // namespace
