#include "ApiTestSupport.h"

namespace moert::testing {

namespace {
constexpr const char *kControls[] = {
    "<s>",           "</s>",           "<|im_end|>",
    "[CALL]",        "<|fim_prefix|>", "<|fim_suffix|>",
    "<|fim_middle|>"};
/// Texts that files of code and reasoning models declare as user-defined, not
/// as control tokens.
constexpr const char *kUserDefined[] = {"<|repo_name|>", "<|file_sep|>",
                                        "<think>", "</think>"};

Tokenizer makeByteTokenizer() {
  TokenizerSpec spec;
  spec.model = "llama";
  spec.pre = noSpacePrefix;
  auto add = [&](std::string text, TokenType type) {
    spec.tokens.push_back(std::move(text));
    spec.types.push_back(int32_t(type));
    spec.scores.push_back(0);
  };
  for (int byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", byte);
    add(text, TokenType::Byte);
  }
  for (const char *name : kControls)
    add(name, TokenType::Control);
  for (const char *name : kUserDefined)
    add(name, TokenType::UserDefined);
  spec.bos = 256;
  spec.eos = 257;
  StatusOr<Tokenizer> tokenizer = Tokenizer::create(spec);
  EXPECT_TRUE(tokenizer.isOk()) << tokenizer.status().message();
  return *std::move(tokenizer);
}
} // namespace

const Tokenizer &byteTokenizer() {
  static const Tokenizer tokenizer = makeByteTokenizer();
  return tokenizer;
}

int32_t endToken() { return 257; }

std::string FakeBackend::defaultTemplate() {
  return "{% if tools %}{{ tools | tojson }}<tool_call>{% endif %}"
         "{% for m in messages %}<{{ m.role }}>{{ m.content }}"
         "{% if m.reasoning_content %}[{{ m.reasoning_content }}]{% endif %}"
         "{% for c in m.tool_calls %}"
         "{{ c.function.name }}({{ c.function.arguments | tojson }})"
         "{% endfor %}"
         "{% endfor %}"
         "{% if reasoning_effort %}effort={{ reasoning_effort }}{% endif %}"
         "{% if extra %}extra={{ extra }}{% endif %}<assistant>";
}

FakeBackend::FakeBackend(std::string chatTemplate, const Tokenizer &tokenizer)
    : tokenizer_(&tokenizer) {
  modelFacts = {.id = "tiny",
                .architecture = "qwen3moe",
                .quantization = "Q4_K_M",
                .digest = "abc123",
                .chatTemplate = chatTemplate,
                .created = 1700000000,
                .bytes = 1 << 20,
                .parameters = 2'000'000'000,
                .contextTokens = 4096,
                .sequences = 4};
  if (chatTemplate.empty())
    return;
  auto format = ChatFormat::fromTemplate(chatTemplate, tokenizer);
  EXPECT_TRUE(format.isOk()) << format.status().message();
  format_ = *format;
}

StatusOr<uint64_t> FakeBackend::submit(GenerationRequest request,
                                       GenerationSink sink) {
  if (!refusal)
    return refusal;
  std::string reply = replies[std::min(requests.size(), replies.size() - 1)];
  requests.push_back(request);
  if (waits)
    waiting_.push_back({std::move(request), std::move(sink), reply});
  else
    run(request, sink, reply);
  return requests.size();
}

void FakeBackend::play() {
  for (Waiting &one : std::exchange(waiting_, {}))
    run(one.request, one.sink, one.reply);
}

void FakeBackend::run(const GenerationRequest &request,
                      const GenerationSink &sink, const std::string &reply) {
  auto stream =
      ReplyStream::create(*tokenizer_, request.promptText, request.reply);
  ASSERT_TRUE(stream.isOk());
  std::vector<int32_t> tokens =
      *tokenizer_->encode(reply, {.addBos = false, .addEos = false});
  const int32_t end = *tokenizer_->eos();
  tokens.push_back(end);
  GenerationEvent event;
  if (request.reportsProgress)
    sink({.events = {},
          .logprobs = {},
          .stats = {.promptTokens = int32_t(request.prompt.size())},
          .promptDone = 1});
  if (request.promptLogprobs)
    for (size_t i = 1; i < request.prompt.size(); ++i)
      event.promptLogprobs.push_back(
          {request.prompt[i], -0.25f, {{request.prompt[i], -0.25f}}});
  size_t inEvent = 0;
  for (int32_t token : tokens) {
    if (!stream->takesMore())
      break;
    for (ReplyEvent &piece : stream->push(token))
      if (!event.events.empty() && event.events.back().kind == piece.kind)
        event.events.back().text += piece.text;
      else
        event.events.push_back(std::move(piece));
    if (token != end)
      event.tokens.push_back(token);
    if (request.topLogprobs >= 0 && token != end) {
      TokenLogprob entry{token, -0.5f, {}};
      for (int32_t i = 0; i < request.topLogprobs; ++i)
        entry.top.push_back({token + i, -0.5f - float(i)});
      event.logprobs.push_back(std::move(entry));
    }
    if (++inEvent == bytesPerEvent && !stream->hasEnded()) {
      sink(std::exchange(event, {}));
      inEvent = 0;
    }
  }
  for (ReplyEvent &piece : stream->finish(StopReason::Length))
    event.events.push_back(std::move(piece));
  event.isEnd = true;
  event.reply = stream->reply();
  event.stats = {.promptTokens = int32_t(request.prompt.size()),
                 .cachedTokens = 2,
                 .generatedTokens = int32_t(event.reply.tokens.size()),
                 .promptSeconds = 0.5,
                 .decodeSeconds = 0.25};
  event.status = failure;
  sink(std::move(event));
}

uint64_t FakeBackend::classify(std::vector<int32_t> tokens, std::string,
                               VectorThen then) {
  if (failure.isOk())
    then(std::vector<float>{float(tokens.size()), 0});
  else
    then(failure);
  return 0;
}

uint64_t FakeBackend::embed(std::vector<int32_t> tokens, std::string,
                            VectorThen then) {
  auto answer = [this, length = float(tokens.size()), then] {
    if (failure.isOk())
      then(std::vector<float>{length, 0.5f});
    else
      then(failure);
  };
  if (waits)
    embeddings.push_back(answer);
  else
    answer();
  return embedded++;
}

BackendStats FakeBackend::stats() const {
  return {.queued = 3,
          .running = 2,
          .pagesTotal = 100,
          .pagesFree = 40,
          .pageTokens = 64,
          .pagesEmpty = 30,
          .pagesKept = 10,
          .promptTokens = 1000,
          .cachedTokens = 600,
          .evaluatedTokens = 400,
          .generatedTokens = 50,
          .finished = 9,
          .failed = 1,
          .steps = {{0.01, 5}, {0.1, 2}},
          .slowerSteps = 1,
          .stepSeconds = 1.5,
          .measuredSeconds = 0.5,
          .devices = {{"cpu0", 0.25, 0.125}}};
}

std::vector<BackendSlot> FakeBackend::slots() const {
  return {{.id = 5,
           .client = "alice",
           .state = "decode",
           .promptTokens = 10,
           .position = 12,
           .generatedTokens = 2}};
}

std::vector<ModelFacts> FakeHost::models() const {
  std::vector<ModelFacts> facts;
  for (const auto &backend : backends)
    facts.push_back(backend->facts());
  return facts;
}

std::vector<std::shared_ptr<Backend>> FakeHost::loaded() const {
  return {backends.begin(), backends.end()};
}

void FakeHost::open(const std::string &name, OpenThen then) {
  for (const auto &backend : backends)
    if (name.empty() || backend->facts().id == name)
      return then(std::shared_ptr<Backend>(backend));
  then(Status(StatusCode::Usage, "no such model"));
}

void FakeAnswer::send(int code, std::string_view contentType, std::string text,
                      HttpHeaders more) {
  EXPECT_EQ(status, 0) << "answered twice";
  status = code;
  type = contentType;
  body = std::move(text);
  headers = std::move(more);
  hasEnded = true;
}

void FakeAnswer::begin(int code, std::string_view contentType, HttpHeaders more,
                       std::string pingText) {
  EXPECT_EQ(status, 0) << "answered twice";
  status = code;
  type = contentType;
  headers = std::move(more);
  ping = std::move(pingText);
  isStream = true;
}

void FakeAnswer::write(std::string bytes) {
  EXPECT_TRUE(isStream && !hasEnded);
  body += bytes;
}

void FakeAnswer::end() {
  EXPECT_TRUE(isStream && !hasEnded);
  hasEnded = true;
}

std::vector<Json> FakeAnswer::events() const {
  std::vector<Json> events;
  bool isNd = type == "application/x-ndjson";
  std::istringstream lines(body);
  for (std::string line; std::getline(lines, line);) {
    std::string_view text = line;
    if (!isNd && !text.starts_with("data: "))
      continue;
    if (!isNd)
      text.remove_prefix(6);
    events.push_back(text == "[DONE]" ? Json("[DONE]") : Json::parse(text));
  }
  return events;
}

std::vector<std::string> FakeAnswer::eventNames() const {
  std::vector<std::string> names;
  std::istringstream lines(body);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("event: "))
      names.push_back(line.substr(7));
  return names;
}

ApiTest::ApiTest() {
  host_.backends.push_back(std::make_shared<FakeBackend>());
  settings_.now = [] { return int64_t{1700000001}; };
  settings_.random = [] { return uint64_t{0x0123456789ABCDEF}; };
  handler_ = makeApi(host_, settings_);
}

std::shared_ptr<FakeAnswer>
ApiTest::request(std::string method, std::string path, std::string body) {
  auto answer = std::make_shared<FakeAnswer>();
  HttpRequest request;
  request.method = std::move(method);
  request.path = std::move(path);
  request.body = std::move(body);
  request.client = client_;
  handler_(std::move(request), answer);
  return answer;
}

} // namespace moert::testing
