// Memory and time of a request are limited before it is evaluated.
#include "ApiTestSupport.h"
#include "runtime/base/JsonPlace.h"

#include <atomic>
#include <cstdlib>
#include <gmock/gmock.h>
#include <malloc.h>
#include <new>
#include <random>

using namespace moert;
using namespace moert::testing;
using ::testing::HasSubstr;

namespace {
/// Counts what the program has from the allocator.
struct Memory {
  std::atomic<size_t> held{0}, most{0};

  void take(void *place) {
    const size_t now = held += malloc_usable_size(place);
    size_t before = most;
    while (before < now && !most.compare_exchange_weak(before, now)) {
    }
  }
  void giveBack(void *place) { held -= malloc_usable_size(place); }
} memory;
} // namespace

void *operator new(size_t bytes) {
  void *place = std::malloc(bytes);
  if (!place)
    throw std::bad_alloc();
  memory.take(place);
  return place;
}
void operator delete(void *place) noexcept {
  if (place)
    memory.giveBack(place);
  std::free(place);
}
void operator delete(void *place, size_t) noexcept { operator delete(place); }

namespace {
constexpr size_t kMiB = size_t(1) << 20;

std::string words(size_t bytes) {
  std::mt19937 random(1);
  std::string text;
  while (text.size() < bytes) {
    text.append(2 + random() % 8, char('a' + random() % 26));
    text += ' ';
  }
  return text;
}

/// Copies of `one` with commas between, of so many bytes.
std::string many(std::string_view one, size_t bytes) {
  std::string list;
  list.reserve(bytes + one.size() + 1);
  while (list.size() < bytes)
    (list += list.empty() ? "" : ",") += one;
  return list;
}

std::string manyMembers() {
  std::string one;
  for (int i = 0; i < 4999; ++i)
    one += (i > 0 ? ",\"k" : "{\"k") + std::to_string(i) + "\":1";
  return one + "}";
}

class ApiLimits : public ApiTest {
protected:
  /// The most memory while the request is answered, beside what there was
  /// before its body was made.
  size_t memoryOf(const char *path, const std::function<std::string()> &make) {
    const size_t before = memory.held;
    std::string body = make();
    body.shrink_to_fit();
    memory.most = memory.held.load();
    answer_ = request("POST", path, std::move(body));
    return memory.most - before;
  }

  std::shared_ptr<FakeAnswer> answer_;
};

TEST_F(ApiLimits, AnyBodyOf32MiBTakesLessThan256MiB) {
  const char *const chat = "/v1/chat/completions";
  const std::pair<const char *, std::function<std::string()>> bodies[] = {
      {"/v1/completions",
       [] { return "{\"prompt\":\"" + words(32 * kMiB) + "\"}"; }},
      {"/api/embed",
       [] {
         return "{\"model\":\"tiny\",\"input\":\"" + words(32 * kMiB) + "\"}";
       }},
      {chat,
       [] {
         return R"({"messages":[{"role":"user","content":")" +
                words(32 * kMiB) + "\"}]}";
       }},
      {chat,
       [] {
         return R"({"messages":[{"role":"user","content":"Hi"},)" +
                many(R"({"role":"assistant","content":")" + words(1000) + "\"}",
                     32 * kMiB) +
                "]}";
       }},
      {"/v1/completions",
       [] {
         return R"({"prompt":"a","x":[)" + many(manyMembers(), 32 * kMiB) +
                "]}";
       }},
      // An object that grows, and one that has room left, behind them.
      {"/v1/completions",
       [] {
         return R"({"x":[)" + many(manyMembers(), 32 * kMiB) +
                R"(],"prompt":"a","max_tokens":1,"y":0,"z":0})";
       }},
      {"/v1/completions",
       [] { return R"({"prompt":"a","x":[)" + many("[]", 32 * kMiB) + "]}"; }},
      {"/v1/completions",
       [] { return R"({"prompt":"a","x":[)" + many("0", 20 * kMiB) + "]}"; }},
      {"/v1/completions",
       [] {
         return R"({"prompt":"a","x":[)" + many("\"a\"", 32 * kMiB) + "]}";
       }},
      {"/v1/completions",
       [] {
         return R"({"prompt":"a","x":[)" + many(R"({"a":0})", 32 * kMiB) + "]}";
       }},
      {"/v1/completions",
       [] { return R"({"prompt":[)" + many("0", 20 * kMiB) + "]}"; }},
      {"/v1/responses",
       [] { return R"({"input":[)" + many("[]", 20 * kMiB) + "]}"; }},
      {chat, [] {
         return R"({"messages":[{"role":"user","content":"Hi"}],"tools":[)"
                R"({"type":"function","function":{"name":"f","parameters":{)"
                R"("enum":[)" +
                many("0", 20 * kMiB) + "]}}}]}";
       }}};
  for (const auto &[path, make] : bodies) {
    const size_t most = memoryOf(path, make);
    EXPECT_LT(most, 256 * kMiB) << make().substr(0, 80);
    EXPECT_THAT((std::vector<int>{200, 400}),
                ::testing::Contains(answer_->status))
        << answer_->body.substr(0, 200);
  }
}

TEST_F(ApiLimits, ATextTakesAFewTimesItsSize) {
  model().modelFacts.contextTokens = 1 << 24;
  constexpr size_t bytes = 4 * kMiB;
  // Tokens have 4 bytes, and here each byte is one.
  EXPECT_LT(memoryOf("/v1/chat/completions/input_tokens",
                     [] {
                       return R"({"messages":[{"role":"user","content":")" +
                              words(bytes) + "\"}]}";
                     }),
            24 * bytes);
  EXPECT_EQ(answer_->status, 200);
  model().modelFacts.contextTokens = 4096;
  EXPECT_LT(memoryOf("/v1/completions",
                     [] { return "{\"prompt\":\"" + words(bytes) + "\"}"; }),
            7 * bytes);
  EXPECT_EQ(answer_->json()["error"]["code"], "context_length_exceeded");
  EXPECT_THAT(answer_->json()["error"]["message"].get<std::string>(),
              HasSubstr("the prompt has at least "));
}

TEST_F(ApiLimits, ATemplateThatTakesTooLongIsAnErrorThatSaysSo) {
  settings_.prepareTime = std::chrono::milliseconds(20);
  handler_ = makeApi(host_, settings_);
  host_.backends[0] = std::make_shared<FakeBackend>(
      "{% if messages[0].content == 'slow' %}{% for a in range(99999) %}"
      "{% for b in range(99999) %}{% endfor %}{% endfor %}{% endif %}"
      "{% for m in messages %}{{ m.content }}{% endfor %}");
  auto ask = [&](const char *text) {
    return post("/v1/chat/completions",
                {{"messages", {{{"role", "user"}, {"content", text}}}}});
  };
  EXPECT_EQ(ask("quick")->status, 200);
  auto slow = ask("slow");
  EXPECT_EQ(slow->status, 400);
  EXPECT_THAT(slow->json()["error"]["message"].get<std::string>(),
              HasSubstr("takes longer than the 20 ms"));
  // The fault is no message's.
  EXPECT_EQ(slow->json()["error"]["param"], nullptr);
}

TEST_F(ApiLimits, ARequestThatTakesTooLongToReadIsAnErrorThatSaysSo) {
  settings_.prepareTime = std::chrono::milliseconds(1);
  handler_ = makeApi(host_, settings_);
  auto answer = request("POST", "/v1/completions",
                        R"({"prompt":"a","x":[)" + many("0", 4 * kMiB) + "]}");
  EXPECT_EQ(answer->status, 400);
  EXPECT_THAT(answer->json()["error"]["message"].get<std::string>(),
              HasSubstr("reading the request takes longer than the 0.001 s"));
}

/// Lists of lengths around that from which on they get their room at once, and
/// what looks like their ends.
TEST(LongLists, AreRead) {
  for (size_t size : {512u, 513u, 514u, 65537u}) {
    std::string list = "[";
    for (size_t i = 0; i < size; ++i)
      list += (i > 0 ? "," : "") + (i % 3 == 0   ? "[" + std::to_string(i) + "]"
                                    : i % 3 == 1 ? std::string("\"],[\\\"\"")
                                                 : std::string("{}"));
    list += "]";
    const std::string text =
        "{\"a\":[]," + ("\"b\":" + list) + ",\"c\":[[" + list + ",1]]}";
    auto json = parseJson("f", text, 6);
    ASSERT_TRUE(json.isOk()) << json.status().message();
    EXPECT_EQ(json->dump(), text);
    const auto &items = (*json)["b"].get_ref<Json::array_t &>();
    EXPECT_TRUE(size == 512 || items.capacity() == size)
        << "it got its room once";
  }
}

} // namespace
