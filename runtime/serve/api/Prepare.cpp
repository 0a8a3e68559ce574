#include "runtime/serve/api/Prepare.h"

#include "runtime/chat/GenericTools.h"
#include "runtime/chat/ToolGrammar.h"

#include <chrono>
#include <fmt/format.h>
#include <random>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
/// Messages whose calls have their arguments as text instead of as JSON: some
/// templates join them to other text.
Messages withArgumentTexts(Messages messages) {
  for (Json &message : messages.list()) {
    if (!message.contains("tool_calls") || !message["tool_calls"].is_array())
      continue;
    for (Json &call : message["tool_calls"])
      if (call.is_object() && call.contains("function") &&
          call["function"].contains("arguments") &&
          !call["function"]["arguments"].is_string())
        call["function"]["arguments"] = call["function"]["arguments"].dump();
  }
  return messages;
}

/// The grammar that holds the reply to its tools; null where it is free.
StatusOr<std::shared_ptr<const Automaton>>
toolAutomaton(const ToolFormat &format, const ServedText &backend,
              const ChatCall &call) {
  using Choice = ToolChoice::Kind;
  std::vector<Tool> tools;
  for (const Tool &tool : call.tools)
    if (call.choice.kind != Choice::Named || tool.name == call.choice.name)
      tools.push_back(tool);
  ToolGrammarOptions options;
  options.isRequired = call.choice.kind != Choice::Auto;
  options.isParallel = call.parallelCalls && call.choice.kind != Choice::Named;
  return toolGrammar(format, tools, backend.tokenizer(), options);
}

/// Whether the reply may call tools.
bool hasTools(const ChatCall &call) {
  return !call.tools.empty() && call.choice.kind != ToolChoice::Kind::None;
}

/// Whether the model is told of its tools in words.
bool isGeneric(const ServedText &backend, const ChatCall &call) {
  return hasTools(call) && needsGenericTools(backend.facts().chatTemplate);
}

StatusOr<ChatPrompt> genericPrompt(const ChatFormat &format,
                                   const ChatCall &call) {
  GenericToolOptions options{.isRequired =
                                 call.choice.kind != ToolChoice::Kind::Auto};
  auto prompt = [&] {
    return format.prompt(withGenericTools(call.messages, call.tools, options),
                         call.options);
  };
  StatusOr<ChatPrompt> first = prompt();
  if (first)
    return first;
  options.isInUserMessage = true;
  StatusOr<ChatPrompt> second = prompt();
  return second ? std::move(second) : std::move(first);
}

ApiError badField(const std::string &param, std::string_view what) {
  return {.message = fmt::format("{} {}", param, what), .param = param};
}
} // namespace

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
  StatusOr<ChatPrompt> prompt =
      isGeneric(backend, call) ? genericPrompt(*format, call)
                               : format->prompt(call.messages, call.options);
  if (!prompt)
    if (StatusOr<ChatPrompt> other =
            format->prompt(withArgumentTexts(call.messages), call.options))
      prompt = std::move(other);
  if (prompt)
    return *std::move(prompt);
  return ApiError{.message = "the chat template cannot write these messages: " +
                             prompt.status().message(),
                  .param = "messages"};
}

Prepared prepareChat(const ServedText &backend, const ApiSettings &settings,
                     const ChatCall &call) {
  using Choice = ToolChoice::Kind;
  auto prompt = chatPrompt(backend, call);
  if (auto *error = std::get_if<ApiError>(&prompt))
    return *error;
  GenerateCall generate = call.generate;
  const ToolFormat *format = isGeneric(backend, call) ? &genericToolFormat()
                             : hasTools(call)
                                 ? toolFormatOf(backend.facts().chatTemplate)
                                 : nullptr;
  bool mustCall = hasTools(call) && call.choice.kind != Choice::Auto;
  if (mustCall && generate.grammar)
    return badField("tool_choice",
                    "cannot force a call while the format of the answer is "
                    "given too");
  // With a format of its own the answer is free of calls.
  if (format && !generate.grammar) {
    auto automaton = toolAutomaton(*format, backend, call);
    if (!automaton)
      return badField("tools",
                      "cannot be used: " + automaton.status().message());
    generate.grammar = *automaton;
  }
  Prepared prepared = preparePrompts(backend, settings, generate,
                                     {std::get<ChatPrompt>(std::move(prompt))});
  if (auto *plan = std::get_if<RunPlan>(&prepared)) {
    plan->toolUse.format = format;
    plan->toolUse.tools = call.tools;
    plan->toolUse.newCallId = [settings, prefix = call.callIdPrefix] {
      return moert::newCallId(settings, prefix);
    };
  }
  return prepared;
}

Prepared preparePrompts(const ServedText &backend, const ApiSettings &settings,
                        const GenerateCall &call,
                        const std::vector<ChatPrompt> &prompts) {
  RunPlan plan;
  plan.streams = call.streams;
  plan.choicesPerPrompt = call.choices;
  int32_t context = backend.facts().contextTokens;
  int32_t vocabulary = backend.tokenizer().vocabularySize();
  for (const auto &[token, bias] : call.sampling.logitBias)
    if (token >= vocabulary)
      return badField("logit_bias",
                      fmt::format("names token {}, but the model has {} tokens",
                                  token, vocabulary));
  for (const ChatPrompt &prompt : prompts) {
    if (prompt.tokens.empty())
      return ApiError{.message = "the prompt is empty: it needs one token"};
    if (context > 0 && int64_t(prompt.tokens.size()) >= context)
      return ApiError{
          .message = fmt::format(
              "the prompt has {} tokens, but the context has room for {} and "
              "one to generate: shorten it, or serve the model with a larger "
              "context",
              prompt.tokens.size(), context - 1),
          .code = "context_length_exceeded",
          .promptTokens = int32_t(prompt.tokens.size()),
          .contextTokens = context};
    for (int32_t token : prompt.tokens)
      if (token < 0 || token >= vocabulary)
        return badField("prompt",
                        fmt::format("has token {}, but the model has {} tokens",
                                    token, vocabulary));
    GenerationRequest request;
    request.prompt = prompt.tokens;
    request.promptText = prompt.text;
    request.sampling = call.sampling;
    if (!call.hasSeed)
      request.sampling.seed =
          settings.seed ? *settings.seed : randomNumber(settings);
    request.reply = call.reply;
    request.grammar = call.grammar;
    request.topLogprobs = call.topLogprobs;
    request.mostDecodeTime = call.mostDecodeTime;
    request.client = call.client;
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
  facts.choices = int32_t(plan.choices());
  facts.choicesPerPrompt = plan.choicesPerPrompt;
  for (const GenerationRequest &request : plan.requests)
    facts.promptTokens += int32_t(request.prompt.size());
  return facts;
}

} // namespace moert
