#include "runtime/serve/api/Prepare.h"

#include "runtime/chat/GenericTools.h"
#include "runtime/chat/ReplyGrammar.h"
#include "runtime/text/StreamDecoder.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <random>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
/// The tools that the reply may call.
std::vector<Tool> toolsToCall(const ChatCall &call) {
  using Choice = ToolChoice::Kind;
  auto mayCall = [&](const std::string &name) {
    if (call.choice.kind == Choice::Named)
      return name == call.choice.name;
    return !call.allowed ||
           std::ranges::find(*call.allowed, name) != call.allowed->end();
  };
  std::vector<Tool> tools;
  for (const Tool &tool : call.tools)
    if (mayCall(tool.name))
      tools.push_back(tool);
  return tools;
}

/// Whether the reply may call tools.
bool hasTools(const ChatCall &call) {
  return !call.tools.empty() && call.choice.kind != ToolChoice::Kind::None;
}

/// Whether the model is told of its tools in words.
bool isGeneric(const ServedText &backend, const ChatCall &call) {
  return hasTools(call) && !backend.chatFormat()->speech()->knowsTools();
}

/// The field that a message comes from.
std::string placeOf(const ChatCall &call, size_t message) {
  const size_t all = call.messages.list().size();
  const size_t own = std::min(call.places.size(), all);
  if (message < all && message >= all - own)
    if (const std::string &place =
            call.places[call.places.size() - (all - message)];
        !place.empty())
      return place;
  return fmt::format("messages[{}]", message);
}

/// The error of a prompt of so many tokens, or at least so many, if the context
/// does not hold it.
std::optional<ApiError> tooLong(const ServedText &backend, size_t tokens,
                                std::string_view atLeast = "") {
  const int32_t context = backend.facts().contextTokens;
  if (context <= 0 || tokens < size_t(context))
    return std::nullopt;
  return ApiError{
      .message = fmt::format(
          "the prompt has {}{} tokens, but the context has room for {} and "
          "one to generate: shorten it, or serve the model with a larger "
          "context (option -c of moert serve)",
          atLeast, tokens, context - 1),
      .code = "context_length_exceeded",
      .promptTokens = int32_t(std::min<size_t>(tokens, INT32_MAX)),
      .contextTokens = context};
}

/// Returns the error for a conversation that is too long already by those texts
/// that a template writes unchanged.
std::optional<ApiError> surelyTooLong(const ServedText &backend,
                                      const Messages &messages) {
  if (!backend.chatFormat())
    return std::nullopt;
  const std::string mark = namedControls(
      withoutBlanks(backend.chatFormat()->speech()->reasoningEnd));
  size_t least = 0;
  for (const Json &message : messages.list()) {
    auto content = message.find("content");
    if (content == message.end() || !content->is_string())
      continue;
    const auto &text = content->get_ref<const std::string &>();
    // Earlier reasoning may be left out.
    if (mark.empty() || text.find(mark) == text.npos)
      least += backend.tokenizer().leastTokens(text);
  }
  return tooLong(backend, least, "at least ");
}

ApiError badField(const std::string &param, std::string_view what) {
  return {.message = fmt::format("{} {}", param, what), .param = param};
}
} // namespace

std::optional<ApiError> surelyTooLong(const ServedText &backend,
                                      std::string_view text) {
  return tooLong(backend, backend.tokenizer().leastTokens(text), "at least ");
}

uint64_t randomNumber(const ApiSettings &settings) {
  if (settings.random)
    return settings.random();
  thread_local std::mt19937_64 engine{std::random_device{}()};
  return engine();
}

int64_t secondsNow(const ApiSettings &settings) {
  if (settings.now)
    return settings.now();
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string randomId(const ApiSettings &settings) {
  uint64_t high = randomNumber(settings), low = randomNumber(settings);
  return fmt::format("{:016x}{:016x}", high, low);
}

std::string newCallId(const ApiSettings &settings, const std::string &prefix) {
  return prefix + randomId(settings).substr(0, 24);
}

std::variant<ChatPrompt, ApiError> chatPrompt(const ServedText &backend,
                                              const ChatCall &call) {
  const ChatFormat *format = backend.chatFormat();
  if (!format)
    return ApiError{.message =
                        fmt::format("the model {} has no chat template: use "
                                    "/v1/completions",
                                    backend.facts().id),
                    .code = "no_chat_template"};
  if (!call.unread.place.empty())
    return ApiError{
        .message = fmt::format(
            "{} is {} {}, but this model reads text alone: "
            "leave it out, or say what is in it",
            call.unread.place,
            call.unread.kind == "image" || call.unread.kind == "audio" ? "an"
                                                                       : "a",
            call.unread.kind),
        .param = call.unread.place,
        .code = "unsupported_parameter"};
  const bool isRequired = call.choice.kind != ToolChoice::Kind::Auto;
  auto prompt =
      isGeneric(backend, call)
          ? fitPrompt(*format,
                      withGenericTools(call.messages, call.tools, isRequired),
                      call.options)
          : fitPrompt(*format, call.messages, call.options);
  if (auto *made = std::get_if<ChatPrompt>(&prompt))
    return std::move(*made);
  const FitFault &fault = std::get<FitFault>(prompt);
  if (call.options.deadline.hasPassed())
    return ApiError{.message = fault.status.message()};
  const std::string place = placeOf(call, fault.message);
  return ApiError{.message =
                      fmt::format("{}: the chat template cannot write this "
                                  "message: {}",
                                  place, fault.status.message()),
                  .param = place};
}

Prepared prepareChat(const ServedText &backend, const ApiSettings &settings,
                     ChatCall call) {
  if (auto error = surelyTooLong(backend, call.messages))
    return *std::move(error);
  auto prompt = chatPrompt(backend, call);
  if (auto *error = std::get_if<ApiError>(&prompt))
    return *error;
  using Choice = ToolChoice::Kind;
  GenerateCall generate = std::move(call.generate);
  const std::shared_ptr<const Speech> &speech = backend.chatFormat()->speech();
  std::shared_ptr<const std::vector<ToolFormat>> forms(speech, &speech->calls);
  // A model may keep to a form of its own, or to that of earlier calls, which
  // are text in templates that take none.
  const bool isTold = isGeneric(backend, call);
  if (isTold || (hasTools(call) && !backend.chatFormat()
                                        ->history()
                                        .habits(call.messages.variables())
                                        .takesCalls)) {
    std::vector<ToolFormat> all = speech->calls;
    all.insert(isTold ? all.begin() : all.end(),
               withControls(genericToolFormat(), backend.tokenizer()));
    forms = std::make_shared<const std::vector<ToolFormat>>(std::move(all));
  }
  const std::vector<Tool> tools = toolsToCall(call);
  ReplyWish wish;
  wish.speech = speech.get();
  wish.prompt = std::get<ChatPrompt>(prompt).text;
  wish.forms = forms.get();
  wish.tools = hasTools(call) ? &tools : nullptr;
  wish.mustCall = hasTools(call) && call.choice.kind != Choice::Auto;
  wish.isParallel = call.parallelCalls && call.choice.kind != Choice::Named;
  wish.answer = generate.format.grammar.get();
  wish.answerKey = generate.format.key;
  wish.deadline = call.options.deadline;
  auto automaton = replyGrammar(wish);
  if (!automaton)
    return badField(wish.tools ? "tools" : "response_format",
                    "cannot be used: " + automaton.status().message());
  generate.format = {*automaton};
  generate.reply.speech = speech;
  generate.reply.findsCalls = hasTools(call);
  std::vector<ChatPrompt> prompts;
  prompts.push_back(std::get<ChatPrompt>(std::move(prompt)));
  Prepared prepared =
      preparePrompts(backend, settings, generate, std::move(prompts));
  if (auto *plan = std::get_if<RunPlan>(&prepared)) {
    if (hasTools(call))
      plan->toolUse.formats = forms;
    plan->toolUse.tools = std::move(call.tools);
    plan->toolUse.origins = std::move(call.origins);
    plan->toolUse.newCallId = [settings, prefix = call.callIdPrefix] {
      return moert::newCallId(settings, prefix);
    };
  }
  return prepared;
}

Prepared preparePrompts(const ServedText &backend, const ApiSettings &settings,
                        const GenerateCall &call,
                        std::vector<ChatPrompt> prompts) {
  RunPlan plan;
  plan.streams = call.streams;
  plan.timesTokens = call.timesTokens;
  plan.choicesPerPrompt = call.choices;
  int32_t vocabulary = backend.tokenizer().vocabularySize();
  for (const auto &[token, bias] : call.sampling.logitBias)
    if (token >= vocabulary)
      return badField("logit_bias",
                      fmt::format("names token {}, but the model has {} tokens",
                                  token, vocabulary));
  for (ChatPrompt &prompt : prompts) {
    if (prompt.tokens.empty())
      return ApiError{.message = "the prompt is empty: it needs one token"};
    if (auto error = tooLong(backend, prompt.tokens.size()))
      return *std::move(error);
    for (int32_t token : prompt.tokens)
      if (token < 0 || token >= vocabulary)
        return badField("prompt",
                        fmt::format("has token {}, but the model has {} tokens",
                                    token, vocabulary));
    GenerationRequest request;
    request.prompt = std::move(prompt.tokens);
    request.promptText = std::move(prompt.text);
    request.sampling = call.sampling;
    if (!call.hasSeed)
      request.sampling.seed =
          settings.seed ? *settings.seed : randomNumber(settings);
    request.reply = call.reply;
    if (request.reply.maxTokens < 0)
      request.reply.maxTokens = settings.maxTokens;
    request.grammar = call.format.automaton;
    request.topLogprobs = call.topLogprobs;
    request.promptLogprobs = call.promptLogprobs;
    request.mostDecodeTime = call.mostDecodeTime;
    request.client = call.client;
    request.priority = call.priority;
    request.reportsProgress = call.reportsProgress && call.streams;
    plan.requests.push_back(std::move(request));
  }
  return plan;
}

ReplyFacts replyFacts(const ServedText &backend, const ApiSettings &settings,
                      const RunPlan &plan) {
  ReplyFacts facts;
  facts.id = randomId(settings);
  facts.model = backend.facts().id;
  facts.created = secondsNow(settings);
  facts.tokenizer = &backend.tokenizer();
  facts.origins = plan.toolUse.origins;
  facts.timesTokens = plan.timesTokens;
  facts.choices = int32_t(plan.choices());
  facts.choicesPerPrompt = plan.choicesPerPrompt;
  for (const GenerationRequest &request : plan.requests)
    facts.promptTokens += int32_t(request.prompt.size());
  return facts;
}

} // namespace moert
