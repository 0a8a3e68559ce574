// llama-server's interface, embeddings, and what a monitor asks.
#include "ApiTestSupport.h"
#include "runtime/serve/api/Embeddings.h"

#include <gmock/gmock.h>

using namespace moert;
using namespace moert::testing;
using ::testing::HasSubstr;

namespace {

TEST_F(ApiTest, ACompletion) {
  Json json =
      post("/completion",
           {{"prompt", "Say"}, {"n_predict", 3}, {"return_tokens", true}})
          ->json();
  json.erase("timings");
  EXPECT_EQ(json.dump(),
            R"({"index":0,"content":"Hel","tokens":[72,101,108],)"
            R"("id_slot":-1,"stop":true,"model":"tiny","tokens_predicted":3,)"
            R"("tokens_evaluated":3,"has_new_line":false,"truncated":false,)"
            R"("stop_type":"limit","stopping_word":"","tokens_cached":6})");
  EXPECT_EQ(byteTokenizer().decode(asked().prompt), "Say");
  EXPECT_EQ(post("/completion", {{"prompt", "a"}, {"stop", {"lo"}}})
                ->json()["stopping_word"],
            "lo");
}

TEST_F(ApiTest, ACompletionStream) {
  model().bytesPerEvent = 3;
  auto answer = post("/completion",
                     {{"prompt", "Say"}, {"stream", true}, {"n_probs", 1}});
  std::vector<Json> events = answer->events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0]["content"], "Hel");
  EXPECT_EQ(events[0]["stop"], false);
  EXPECT_EQ(events[0]["completion_probabilities"][0]["id"], 'H');
  EXPECT_EQ(events[0]["completion_probabilities"][0]["top_logprobs"][0]["id"],
            'H');
  EXPECT_EQ(events[2]["stop"], true);
  EXPECT_EQ(events[2]["stop_type"], "eos");
}

TEST_F(ApiTest, Infill) {
  auto answer =
      post("/infill",
           {{"input_prefix", "a"}, {"input_suffix", "c"}, {"prompt", "b"}});
  EXPECT_EQ(answer->status, 200) << answer->body;
  EXPECT_EQ(asked().prompt,
            (std::vector<int32_t>{260, 'a', 'b', 261, 'c', 262}));
  // Names of tokens in a file are text.
  post("/infill", {{"input_prefix", "</s>"}, {"input_suffix", ""}});
  EXPECT_EQ(asked().prompt.size(), 7u);
  EXPECT_EQ(post("/infill", {{"input_prefix", "a"}})->status, 400);
}

TEST_F(ApiTest, TokensAndTexts) {
  EXPECT_EQ(post("/tokenize", {{"content", "Hi</s>"}})->body,
            R"({"tokens":[72,105,257]})");
  EXPECT_EQ(post("/tokenize", {{"content", "</s>"}, {"parse_special", false}})
                ->json()["tokens"]
                .size(),
            4u);
  EXPECT_EQ(post("/tokenize", {{"content", "H\xC3\xA4"}, {"with_pieces", true}})
                ->body,
            R"({"tokens":[{"id":72,"piece":"H"},{"id":195,"piece":[195]},)"
            R"({"id":164,"piece":[164]}]})");
  EXPECT_EQ(post("/detokenize", {{"tokens", {72, 105}}})->body,
            R"({"content":"Hi"})");
  EXPECT_EQ(post("/detokenize", {{"tokens", {-1}}})->status, 400);
  EXPECT_EQ(post("/apply-template",
                 {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}})
                ->body,
            R"({"prompt":"<user>Hi<assistant>"})");
}

TEST_F(ApiTest, Properties) {
  Json json = request("GET", "/props")->json();
  EXPECT_EQ(json["total_slots"], 4);
  EXPECT_EQ(json["bos_token"], "<s>");
  EXPECT_EQ(json["default_generation_settings"]["n_ctx"], 4096);
  EXPECT_EQ(request("GET", "/slots")->body,
            R"([{"id":5,"model":"tiny","n_ctx":4096,"is_processing":true,)"
            R"("state":"decode","client":"alice","n_prompt_tokens":10,)"
            R"("n_past":12,"n_decoded":2}])");
}

TEST_F(ApiTest, Health) {
  EXPECT_EQ(request("GET", "/health")->body, R"({"status":"ok"})");
  host_.healthNow = {"loading", 0.25};
  auto loading = request("GET", "/health");
  EXPECT_EQ(loading->status, 503);
  EXPECT_EQ(loading->body, R"({"status":"loading","progress":0.25})");
}

TEST_F(ApiTest, Metrics) {
  model().modelFacts.id = "a\"b";
  std::string text = request("GET", "/metrics")->body;
  for (const char *line :
       {"# TYPE moert_requests_queued gauge\n"
        "moert_requests_queued{model=\"a\\\"b\"} 3\n",
        "moert_cache_usage_ratio{model=\"a\\\"b\"} 0.6\n",
        "moert_prefix_hit_ratio{model=\"a\\\"b\"} 0.6\n",
        "moert_step_seconds_bucket{model=\"a\\\"b\",le=\"0.01\"} 5\n",
        "moert_step_seconds_bucket{model=\"a\\\"b\",le=\"0.1\"} 7\n",
        "moert_step_seconds_bucket{model=\"a\\\"b\",le=\"+Inf\"} 8\n",
        "moert_step_seconds_sum{model=\"a\\\"b\"} 1.5\n",
        "moert_step_seconds_count{model=\"a\\\"b\"} 8\n"})
    EXPECT_THAT(text, HasSubstr(line));
}

TEST_F(ApiTest, EmbeddingsSayWhyThereAreNone) {
  auto answer = post("/v1/embeddings", {{"input", "a"}});
  EXPECT_EQ(answer->status, 400);
  EXPECT_THAT(answer->body, HasSubstr("computes no embeddings"));
  EXPECT_EQ(post("/api/embed", {{"model", "tiny"}, {"input", "a"}})->status,
            400);
}

/// Its embedding is the length of the text, and a half.
class EmbeddingBackend : public FakeBackend {
public:
  void embed(std::vector<int32_t> tokens, EmbedThen then) override {
    then(std::vector<float>{float(tokens.size()), 0.5f});
  }
};

TEST_F(ApiTest, Embeddings) {
  host_.backends[0] = std::make_shared<EmbeddingBackend>();
  EXPECT_EQ(post("/v1/embeddings", {{"input", {"a", "bc"}}})->body,
            R"({"object":"list","data":[{"object":"embedding","index":0,)"
            R"("embedding":[1.0,0.5]},{"object":"embedding","index":1,)"
            R"("embedding":[2.0,0.5]}],"model":"tiny","usage":)"
            R"({"prompt_tokens":3,"total_tokens":3}})");
  EXPECT_EQ(
      post("/v1/embeddings", {{"input", "a"}, {"encoding_format", "base64"}})
          ->json()["data"][0]["embedding"],
      "AACAPwAAAD8=");
  EXPECT_EQ(post("/api/embed", {{"model", "tiny"}, {"input", "a"}})->body,
            R"({"model":"tiny","embeddings":[[1.0,0.5]],)"
            R"("prompt_eval_count":1})");
  EXPECT_EQ(base64Floats(std::vector<float>{1, 2, 3}), "AACAPwAAAEAAAEBA");
}

TEST_F(ApiTest, ThePlacementPageRunsItsOwnScriptsAlone) {
  EXPECT_EQ(request("GET", "/placement")->status, 404);
  settings_.placementPage = [](const std::string &name) {
    return StatusOr<std::string>("<p>" + name + "<script>1</script>");
  };
  handler_ = makeApi(host_, settings_);
  auto answer = request("GET", "/placement");
  EXPECT_EQ(answer->type, "text/html; charset=utf-8");
  EXPECT_EQ(answer->body,
            std::string("<p>tiny<script nonce=\"") + kId + "\">1</script>");
  EXPECT_EQ(answer->headers[0].first, "Content-Security-Policy");
  EXPECT_THAT(answer->headers[0].second,
              HasSubstr(std::string("script-src 'nonce-") + kId + "';"));
}

} // namespace
