// llama-server's interface, embeddings, and the endpoints for monitors.
#include "ApiTestSupport.h"
#include "runtime/serve/api/Embeddings.h"
#include "runtime/serve/api/Rerank.h"

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
  Json settings = json["generation_settings"];
  json.erase("generation_settings");
  EXPECT_EQ(settings["n_predict"], 3);
  EXPECT_EQ(settings["seed"], 0x0123456789ABCDEF);
  EXPECT_EQ(settings["stop"], Json::array());
  EXPECT_EQ(
      json.dump(),
      R"({"index":0,"content":"Hel","tokens":[72,101,108],)"
      R"("id_slot":-1,"stop":true,"model":"tiny","tokens_predicted":3,)"
      R"("tokens_evaluated":3,"prompt":"Say","has_new_line":false,"truncated":false,)"
      R"("stop_type":"limit","stopping_word":"","tokens_cached":6})");
  EXPECT_EQ(byteTokenizer().decode(asked().prompt), "Say");
  EXPECT_EQ(post("/completion", {{"prompt", "a"}, {"stop", {"lo"}}})
                ->json()["stopping_word"],
            "lo");
}

TEST_F(ApiTest, UsersShareAServerWithoutKeys) {
  auto ask = [&](const Json &more) {
    Json body = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}};
    body.update(more);
    post("/v1/chat/completions", body);
    return asked();
  };
  Json more = {{"user", "bob"}, {"priority", 3}};
  EXPECT_EQ(ask(more).client, "alice") << "a key is whom it belongs to";
  EXPECT_EQ(asked().priority, 0) << "and does not get ahead of others";
  more["priority"] = -2;
  EXPECT_EQ(ask(more).priority, -2);
  client_ = "";
  EXPECT_EQ(ask(more).client, "bob");
  more["priority"] = 3;
  EXPECT_EQ(ask(more).priority, 3);
  EXPECT_EQ(ask(Json::object()).client, "");
  post("/v1/messages", {{"model", "tiny"},
                        {"max_tokens", 3},
                        {"metadata", {{"user_id", "eve"}}},
                        {"messages", {{{"role", "user"}, {"content", "a"}}}}});
  EXPECT_EQ(asked().client, "eve");
  Json all = request("GET", "/usage")->json()["data"];
  ASSERT_EQ(all.size(), 4u) << all;
  EXPECT_EQ(all[1]["client"], "alice");
  client_ = "alice";
  Json own = request("GET", "/usage")->json()["data"];
  ASSERT_EQ(own.size(), 1u);
  EXPECT_EQ(own[0].dump(),
            R"({"client":"alice","model":"tiny","requests":2,)"
            R"("prompt_tokens":38,"cached_tokens":4,"completion_tokens":10})");
}

TEST_F(ApiTest, ProgressAndTimesWhereTheyAreWanted) {
  model().bytesPerEvent = 3;
  Json chat = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}},
               {"stream", true}};
  Json text = {{"prompt", "Say"}, {"stream", true}};
  const std::pair<const char *, Json> requests[] = {
      {"/v1/chat/completions", chat},
      {"/v1/completions", text},
      {"/completion", text}};
  for (const auto &[path, body] : requests) {
    auto count = [&](const Json &body, const char *key) {
      int events = 0;
      for (const Json &event : post(path, body)->events())
        events += event.is_object() && event.contains(key);
      return events;
    };
    Json wanted = body;
    wanted["return_progress"] = wanted["timings_per_token"] = true;
    EXPECT_EQ(count(body, "prompt_progress"), 0) << path;
    EXPECT_EQ(count(body, "timings"), 1) << path;
    EXPECT_EQ(count(wanted, "prompt_progress"), 1) << path;
    EXPECT_GE(count(wanted, "timings"), 3) << path;
  }
}

TEST_F(ApiTest, ACompletionStream) {
  model().bytesPerEvent = 3;
  auto answer = post("/completion",
                     {{"prompt", "Say"}, {"stream", true}, {"n_probs", 1}});
  std::vector<Json> events = answer->events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0]["content"], "Hel");
  EXPECT_EQ(events[0]["stop"], false);
  EXPECT_EQ(events[0]["tokens"], Json({72, 101, 108}));
  EXPECT_EQ(events[0]["tokens_predicted"], 3);
  EXPECT_EQ(events[1]["tokens"], Json({108, 111}));
  EXPECT_EQ(events[1]["tokens_predicted"], 5);
  EXPECT_EQ(events[1]["tokens_evaluated"], 3);
  EXPECT_EQ(events[1]["id_slot"], -1);
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

TEST_F(ApiTest, FilesOfAnInfillAreTextAndHaveTheirNames) {
  post("/infill",
       {{"input_prefix", "a<|file_sep|>"}, {"input_suffix", "<|fim_middle|>"}});
  EXPECT_EQ(asked().prompt.size(), 3u + 1 + 12 + 14);
  const int32_t repository = 263, file = 264;
  Json extra =
      Json::parse(R"([{"text": "T"}, {"filename": "n", "text": "U"}])");
  post("/infill",
       {{"input_prefix", "a"}, {"input_suffix", "b"}, {"input_extra", extra}});
  EXPECT_EQ(asked().promptText,
            "<|repo_name|>myproject\n<|file_sep|>tmp\nT<|file_sep|>n\nU"
            "<|file_sep|>filename\n<|fim_prefix|>a<|fim_suffix|>b"
            "<|fim_middle|>");
  EXPECT_EQ(asked().prompt[0], repository);
  EXPECT_EQ(asked().prompt[11], file);
}

TEST_F(ApiTest, AnInfillIsCutToTheContext) {
  model().modelFacts.contextTokens = 43;
  const std::string prefix(100, 'p'), suffix(100, 's');
  auto marked = [](size_t before, size_t after) {
    return "<|fim_prefix|>" + std::string(before, 'p') + "<|fim_suffix|>" +
           std::string(after, 's') + "<|fim_middle|>";
  };
  auto ask = [&](const std::string &before, const std::string &after,
                 Json extra = Json::array()) {
    auto answer = post("/infill", {{"input_prefix", before},
                                   {"input_suffix", after},
                                   {"input_extra", extra},
                                   {"n_predict", 20}});
    return answer->status == 200 ? asked().promptText : answer->body;
  };
  EXPECT_EQ(ask(prefix, suffix), marked(15, 5));
  EXPECT_EQ(ask(prefix, "ss"), marked(18, 2));
  EXPECT_EQ(ask("pp", suffix), marked(2, 18));
  EXPECT_EQ(ask("", ""), marked(0, 0));
  // Other files take what is left, the last ones first.
  model().modelFacts.contextTokens = 90;
  Json extra = Json::parse(R"([{"filename": "first", "text":
    "12345678901234567890123456789012345678"},
    {"filename": "n", "text": "U"}])");
  EXPECT_EQ(ask("p", "s", extra),
            "<|repo_name|>myproject\n<|file_sep|>n\nU<|file_sep|>filename\n" +
                marked(1, 1));
}

TEST_F(ApiTest, TheTimeOfAnInfillIsLimited) {
  post("/infill", {{"input_prefix", "a"},
                   {"input_suffix", "b"},
                   {"t_max_predict_ms", 100}});
  EXPECT_EQ(asked().mostDecodeTime, std::chrono::milliseconds(100));
  post("/completion", {{"prompt", "a"}, {"t_max_predict_ms", -1}});
  EXPECT_EQ(asked().mostDecodeTime, std::nullopt);
}

TEST_F(ApiTest, FieldsOfACompletionAreSelected) {
  EXPECT_EQ(post("/completion",
                 {{"prompt", "a"},
                  {"response_fields",
                   {"content", "timings/predicted_n", "timings/x", "y"}}})
                ->body,
            R"({"content":"Hello","timings/predicted_n":5})");
  EXPECT_EQ(
      post("/completion", {{"prompt", "a"}, {"response_fields", 1}})->status,
      400);
}

TEST_F(ApiTest, TokensAndTexts) {
  EXPECT_EQ(post("/tokenize", {{"content", "Hi</s>"}})->body,
            R"({"tokens":[72,105,257],"count":3,"max_model_len":4096})");
  EXPECT_EQ(post("/tokenize", {{"content", "</s>"}, {"parse_special", false}})
                ->json()["tokens"]
                .size(),
            4u);
  EXPECT_EQ(post("/tokenize", {{"content", "H\xC3\xA4"}, {"with_pieces", true}})
                ->body,
            R"({"tokens":[{"id":72,"piece":"H"},{"id":195,"piece":[195]},)"
            R"({"id":164,"piece":[164]}],"count":3,"max_model_len":4096})");
  EXPECT_EQ(post("/detokenize", {{"tokens", {72, 105}}})->body,
            R"({"content":"Hi","prompt":"Hi"})");
  EXPECT_EQ(post("/detokenize", {{"tokens", {-1}}})->status, 400);
  Json bad = post("/detokenize", {{"tokens", {72, 999999}}})->json()["error"];
  EXPECT_EQ(bad["param"], "tokens[1]");
  EXPECT_EQ(
      post("/tokenize", {{"content", Json::parse(R"(["H", 105, "!"])")}})->body,
      R"({"tokens":[72,105,33],"count":3,"max_model_len":4096})");
  EXPECT_EQ(post("/tokenize", {{"content", {999999}}})->status, 400);
  EXPECT_EQ(post("/apply-template",
                 {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}})
                ->body,
            R"({"prompt":"<user>Hi<assistant>"})");
}

TEST_F(ApiTest, ModelsWithoutAClassifierRankNothing) {
  auto answer = post("/v1/rerank", {{"query", "a"}, {"documents", {"b", "c"}}});
  EXPECT_EQ(answer->status, 501);
  EXPECT_THAT(answer->body, HasSubstr("no classifier (cls.output.weight)"));
  EXPECT_EQ(post("/rerank", {{"query", "a"}})->status, 400);
}

// The first output is the number of the prompt's tokens, the second is 0.
TEST_F(ApiTest, RanksDocuments) {
  model().modelFacts.labels = {"yes", "no"};
  model().modelFacts.rankTemplate = "{query}:{document}";
  Json body = {{"query", "q"}, {"documents", {"", "abc", {{"text", "a"}}}}};
  Json answer = post("/v1/rerank", body)->json();
  ASSERT_EQ(answer["results"].size(), 3u);
  const std::vector<int> order = {1, 2, 0};
  for (size_t i = 0; i < 3; ++i)
    EXPECT_EQ(answer["results"][i]["index"], order[i]);
  EXPECT_DOUBLE_EQ(answer["results"][2]["relevance_score"],
                   1 / (1 + std::exp(-2.0)));
  EXPECT_EQ(answer["usage"]["total_tokens"], 2 + 5 + 3);
  body["top_n"] = 1;
  body["return_documents"] = true;
  for (const char *path : {"/rerank", "/reranking", "/v1/reranking"})
    EXPECT_EQ(post(path, body)->json()["results"][0]["document"]["text"],
              "abc");
  Json plain = post("/rerank", {{"query", "q"}, {"texts", {"", "a"}}})->json();
  EXPECT_EQ(plain[0]["index"], 1);
  EXPECT_TRUE(plain[0].contains("score"));
  body["documents"][1] = std::string(5000, 'x');
  auto tooLong = post("/rerank", body);
  EXPECT_EQ(tooLong->status, 400);
  EXPECT_EQ(tooLong->json()["error"]["param"], "documents[1]");
}

// Whatever a query or a document says, the prompt has the control tokens of
// the template alone, and each text once.
TEST_F(ApiTest, TextsOfRankedDocumentsAreText) {
  const Tokenizer &tokenizer = model().tokenizer();
  for (const char *rankTemplate :
       {"<s>q {query} d {document}</s>", "<s>{document} for {query}</s>"})
    for (const std::string text : {"</s>", "{document}", "{query}", "a<s>b"}) {
      const std::string other = "{query}</s>{document}";
      auto prompt = rankPrompt(tokenizer, rankTemplate, text, other);
      ASSERT_TRUE(prompt.isOk());
      const std::vector<int32_t> &tokens = prompt->tokens;
      EXPECT_EQ(std::ranges::count(tokens, *tokenizer.bos()), 1);
      EXPECT_EQ(std::ranges::count(tokens, *tokenizer.eos()), 1);
      std::string expected = rankTemplate;
      const bool isFirst = expected.find("{query}") < expected.find("{doc");
      expected = isFirst ? "q " + text + " d " + other : other + " for " + text;
      EXPECT_EQ(tokenizer.decode(tokens), expected);
    }
  EXPECT_EQ(rankPrompt(tokenizer, "{query}", "a", "b").status().code(),
            StatusCode::Unsupported);
}

TEST_F(ApiTest, TokenizersForClientsOfVllm) {
  Json info = request("GET", "/tokenizer_info")->json();
  EXPECT_EQ(info["bos_token"], "<s>");
  EXPECT_EQ(info["eos_token"], "</s>");
  EXPECT_EQ(info["chat_template"], FakeBackend::defaultTemplate());
  Json body = {{"prompt", "Hi"}, {"add_special_tokens", false}};
  EXPECT_EQ(post("/tokenize", body)->json()["tokens"], Json({72, 105}));
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
        "moert_cache_pages_empty{model=\"a\\\"b\"} 30\n",
        "moert_cache_pages_kept{model=\"a\\\"b\"} 10\n",
        "moert_cache_usage_ratio{model=\"a\\\"b\"} 0.6\n",
        "moert_prefix_hit_ratio{model=\"a\\\"b\"} 0.6\n",
        "moert_step_seconds_bucket{model=\"a\\\"b\",le=\"0.01\"} 5\n",
        "moert_step_seconds_bucket{model=\"a\\\"b\",le=\"0.1\"} 7\n",
        "moert_step_seconds_bucket{model=\"a\\\"b\",le=\"+Inf\"} 8\n",
        "moert_step_seconds_sum{model=\"a\\\"b\"} 1.5\n",
        "moert_measured_step_seconds_total{model=\"a\\\"b\"} 0.5\n",
        "moert_device_seconds_total{model=\"a\\\"b\",device=\"cpu0\","
        "state=\"wait\"} 0.125\n",
        "moert_step_seconds_count{model=\"a\\\"b\"} 8\n",
        // Inference gateways rank servers by these figures.
        "# TYPE vllm:num_requests_waiting gauge\n"
        "vllm:num_requests_waiting{model_name=\"a\\\"b\"} 3\n",
        "vllm:num_requests_running{model_name=\"a\\\"b\"} 2\n",
        "vllm:kv_cache_usage_perc{model_name=\"a\\\"b\"} 0.6\n",
        "vllm:prefix_cache_queries_total{model_name=\"a\\\"b\"} 1000\n",
        "vllm:prefix_cache_hits_total{model_name=\"a\\\"b\"} 600\n",
        "vllm:cache_config_info{block_size=\"64\",num_gpu_blocks=\"100\","
        "model_name=\"a\\\"b\"} 1\n"})
    EXPECT_THAT(text, HasSubstr(line));
}

TEST_F(ApiTest, MetricsOfTheHttpServerFollow) {
  settings_.moreMetrics = [] { return std::string("more 1\n"); };
  handler_ = makeApi(host_, settings_);
  EXPECT_TRUE(request("GET", "/metrics")->body.ends_with("\nmore 1\n"));
}

TEST_F(ApiTest, EmbeddingsSayWhyThereAreNone) {
  model().failure = Status(StatusCode::Unsupported, "the model has none");
  auto answer = post("/v1/embeddings", {{"input", {"a", "b"}}});
  EXPECT_EQ(answer->status, 400);
  EXPECT_THAT(answer->body, HasSubstr("the model has none"));
  EXPECT_EQ(post("/api/embed", {{"model", "tiny"}, {"input", "a"}})->status,
            400);
}

// A long list must not fill the queue: others wait, too.
TEST_F(ApiTest, AsManyTextsAreEmbeddedTogetherAsTheModelHasSequences) {
  model().waits = true;
  model().modelFacts.sequences = 2;
  auto answer = post("/v1/embeddings", {{"input", {"a", "bb", "ccc", "dddd"}}});
  auto &waiting = model().embeddings;
  // A call may add others to the list.
  auto play = [&](size_t index) {
    std::function<void()> answer = waiting[index];
    answer();
  };
  ASSERT_EQ(waiting.size(), 2u);
  play(1);
  ASSERT_EQ(waiting.size(), 3u);
  play(2);
  ASSERT_EQ(waiting.size(), 4u);
  play(3);
  EXPECT_EQ(answer->body, "");
  play(0);
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(answer->json()["data"][i]["embedding"][0], double(i + 1));
}

// The backend's embedding is the length of the text, and a half.
TEST_F(ApiTest, Embeddings) {
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
  // Ollama cuts texts that are too long, unless the request forbids it.
  model().modelFacts.contextTokens = 4;
  EXPECT_EQ(post("/api/embed", {{"model", "tiny"}, {"input", "abcdef"}})
                ->json()["embeddings"][0][0],
            3.0);
  EXPECT_EQ(post("/api/embed",
                 {{"model", "tiny"}, {"input", "abcdef"}, {"truncate", false}})
                ->json()["embeddings"][0][0],
            6.0);
  model().modelFacts.contextTokens = 4096;
  EXPECT_EQ(
      post("/api/embeddings", {{"model", "tiny"}, {"prompt", "abc"}})->body,
      R"({"embedding":[3.0,0.5]})");
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

// llama-server has these paths with and without "/v1".
TEST_F(ApiTest, PathsWithoutAVersion) {
  EXPECT_EQ(request("GET", "/v1/health")->body, R"({"status":"ok"})");
  EXPECT_EQ(request("GET", "/models")->body,
            request("GET", "/v1/models")->body);
  EXPECT_EQ(request("GET", "/lora-adapters")->body, "[]");
  const Json body = {{"prompt", "a"},
                     {"input", "a"},
                     {"messages", {{{"role", "user"}, {"content", "Hi"}}}}};
  for (const char *path :
       {"/completions", "/chat/completions", "/embeddings", "/responses"})
    EXPECT_EQ(post(path, body)->body,
              post("/v1" + std::string(path), body)->body)
        << path;
  EXPECT_EQ(post("/embedding", {{"content", {"a", "bc"}}})->body,
            R"([{"index":0,"embedding":[[1.0,0.5]]},)"
            R"({"index":1,"embedding":[[2.0,0.5]]}])");
}

TEST_F(ApiTest, TokensOfRequestsAreCounted) {
  const Json messages = {{{"role", "user"}, {"content", "Hi"}}};
  auto chat =
      post("/v1/chat/completions/input_tokens", {{"messages", messages}});
  EXPECT_EQ(chat->body,
            R"({"object":"response.input_tokens","input_tokens":19})");
  EXPECT_EQ(post("/v1/responses/input_tokens", {{"input", "Hi"}})->body,
            chat->body);
  EXPECT_GT(post("/v1/responses/input_tokens",
                 {{"input", "Hi"}, {"instructions", "Be kind."}})
                ->json()["input_tokens"],
            19);
  EXPECT_EQ(post("/v1/responses/input_tokens",
                 {{"input", "Hi"}, {"previous_response_id", "resp_x"}})
                ->status,
            404);
  EXPECT_TRUE(model().requests.empty());
}

// A rate has as many intervals as it has tokens after the first.
TEST_F(ApiTest, TimesPerToken) {
  Json timings = post("/completion", {{"prompt", "a"}, {"n_predict", 3}})
                     ->json()["timings"];
  EXPECT_EQ(timings["predicted_per_second"], 8.0);
  EXPECT_EQ(timings["predicted_per_token_ms"], 125.0);
  timings = post("/completion", {{"prompt", "a"}, {"n_predict", 1}})
                ->json()["timings"];
  EXPECT_EQ(timings["predicted_per_second"], 0);
  EXPECT_EQ(timings["predicted_per_token_ms"], 0);
  Json ollama = post("/api/generate", {{"model", "tiny"},
                                       {"prompt", "a"},
                                       {"stream", false},
                                       {"options", {{"num_predict", 3}}}})
                    ->json();
  EXPECT_EQ(ollama["eval_duration"], 375'000'000);
}

} // namespace
