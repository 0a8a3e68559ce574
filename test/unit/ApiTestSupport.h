//===- ApiTestSupport.h - A server's interfaces without a model -*- C++ -*-===//

#ifndef MOE_TEST_UNIT_APITESTSUPPORT_H
#define MOE_TEST_UNIT_APITESTSUPPORT_H

#include "runtime/serve/api/Backend.h"
#include "runtime/serve/api/Router.h"

#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace moert::testing {

using Json = nlohmann::ordered_json;

/// The id of every reply of an ApiTest, without its prefix.
inline constexpr const char *kId = "0123456789abcdef0123456789abcdef";

/// A tokenizer in which every byte is a token, with some control tokens.
const Tokenizer &byteTokenizer();
/// Ids of its control tokens.
int32_t endToken();

/// A model that says what a test tells it to.
class FakeBackend : public Backend {
public:
  /// `tokenizer` must outlive this.
  explicit FakeBackend(std::string chatTemplate = defaultTemplate(),
                       const Tokenizer &tokenizer = byteTokenizer());

  /// Replies of the next generations, the last one for all later ones. A reply
  /// ends with the end-of-text token.
  std::vector<std::string> replies = {"Hello"};
  /// Bytes of the reply in each event.
  size_t bytesPerEvent = 1;
  /// If not ok: submit() fails with it, or the generation does after its text.
  Status refusal, failure;
  /// Texts that wait for their embedding, if `waits`: tests call these.
  std::vector<std::function<void()>> embeddings;
  uint64_t embedded = 100; ///< Number of the next embedding.
  /// Whether events wait for play().
  bool waits = false;
  /// The requests that were submitted.
  std::vector<GenerationRequest> requests;
  std::vector<uint64_t> cancelled;
  ModelFacts modelFacts;

  /// Sends the events of waiting generations.
  void play();

  const ModelFacts &facts() const override { return modelFacts; }
  const Tokenizer &tokenizer() const override { return *tokenizer_; }
  const ChatFormat *chatFormat() const override {
    return format_ ? &*format_ : nullptr;
  }
  StatusOr<uint64_t> submit(GenerationRequest request,
                            GenerationSink sink) override;
  void cancel(uint64_t id) override { cancelled.push_back(id); }
  int32_t retryAfterSeconds() const override { return 7; }
  uint64_t embed(std::vector<int32_t> tokens, std::string client,
                 VectorThen then) override;
  /// The outputs are the number of tokens, and 0.
  uint64_t classify(std::vector<int32_t> tokens, std::string client,
                    VectorThen then) override;
  BackendStats stats() const override;
  std::vector<BackendSlot> slots() const override;

  static std::string defaultTemplate();

private:
  void run(const GenerationRequest &request, const GenerationSink &sink,
           const std::string &reply);

  const Tokenizer *tokenizer_;
  std::optional<ChatFormat> format_;
  struct Waiting {
    GenerationRequest request;
    GenerationSink sink;
    std::string reply;
  };
  std::vector<Waiting> waiting_;
};

class FakeHost : public ModelHost {
public:
  std::vector<std::shared_ptr<FakeBackend>> backends;
  Health healthNow;

  std::vector<ModelFacts> models() const override;
  std::vector<std::shared_ptr<Backend>> loaded() const override;
  void open(const std::string &name, OpenThen then) override;
  void keep(const std::string &name, KeepTime time) override {
    kept[name] = time == std::chrono::milliseconds::max() ? KeepTime() : time;
  }
  KeepTime keptFor(const std::string &name) const override {
    auto found = kept.find(name);
    return found == kept.end() ? KeepTime() : found->second;
  }
  /// The arguments of keep().
  std::map<std::string, KeepTime> kept;
  Health health() const override { return healthNow; }
};

/// An answer as a client sees it.
class FakeAnswer : public HttpAnswer {
public:
  int status = 0;
  std::string type, body, ping;
  HttpHeaders headers;
  bool isStream = false, hasEnded = false;

  void send(int status, std::string_view contentType, std::string body,
            HttpHeaders headers) override;
  void begin(int status, std::string_view contentType, HttpHeaders headers,
             std::string ping) override;
  void write(std::string bytes) override;
  void end() override;
  size_t pendingBytes() const override { return 0; }
  void onGone(std::function<void()> gone) override { gone_ = std::move(gone); }

  /// The client leaves.
  void leave() {
    if (gone_)
      gone_();
  }
  Json json() const { return Json::parse(body, nullptr, false); }
  /// The data of server-sent events, or the lines of NDJSON; [DONE] as a
  /// string.
  std::vector<Json> events() const;
  /// The names of server-sent events.
  std::vector<std::string> eventNames() const;

private:
  std::function<void()> gone_;
};

/// Interfaces with one model, fixed ids and a fixed time.
class ApiTest : public ::testing::Test {
protected:
  ApiTest();

  std::shared_ptr<FakeAnswer> request(std::string method, std::string path,
                                      std::string body = {});
  std::shared_ptr<FakeAnswer> post(std::string path, const Json &body) {
    return request("POST", std::move(path), body.dump());
  }

  FakeBackend &model() { return *host_.backends[0]; }
  /// The last request that was submitted.
  const GenerationRequest &asked() { return model().requests.back(); }

  std::string client_ = "alice"; ///< Client of the requests.
  FakeHost host_;
  ApiSettings settings_;
  HttpHandler handler_;
};

} // namespace moert::testing

#endif // MOE_TEST_UNIT_APITESTSUPPORT_H
