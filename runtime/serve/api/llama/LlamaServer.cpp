#include "runtime/serve/api/llama/LlamaServer.h"

#include "runtime/serve/api/CommonFields.h"
#include "runtime/serve/api/Prepare.h"
#include "runtime/serve/api/openai/OpenAi.h"
#include "runtime/text/Tokenizer.h"

#include <fmt/format.h>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
struct TokenizeRequest {
  std::string model, content;
  bool addsSpecial = false, parsesSpecial = true, hasPieces = false;
};

struct DetokenizeRequest {
  std::string model;
  std::vector<int32_t> tokens;
};

/// A token's text; its bytes, where they are no text.
Json pieceJson(std::string_view bytes) {
  std::string text(bytes);
  Json json = text;
  std::string replaced = Json::parse(jsonText(json)).get<std::string>();
  if (replaced == text)
    return json;
  Json list = Json::array();
  for (char c : bytes)
    list.push_back(uint8_t(c));
  return list;
}

Json samplingJson(const SamplerParams &params) {
  return {{"temperature", params.temperature},
          {"top_k", params.topK},
          {"top_p", params.topP},
          {"min_p", params.minP},
          {"repeat_penalty", params.repetitionPenalty},
          {"repeat_last_n", params.repetitionWindow},
          {"presence_penalty", params.presencePenalty},
          {"frequency_penalty", params.frequencyPenalty}};
}
} // namespace

void tokenize(Exchange exchange) {
  auto request = readBody<TokenizeRequest>(
      exchange, [](const Field &body, TokenizeRequest &request) {
        request.model = body["model"].text().value_or("");
        request.content = body["content"].required().text().value_or("");
        request.addsSpecial = body["add_special"].boolean().value_or(false);
        request.parsesSpecial = body["parse_special"].boolean().value_or(true);
        request.hasPieces = body["with_pieces"].boolean().value_or(false);
      });
  if (!request)
    return;
  std::string model = request->model;
  withModel(
      std::move(exchange), model,
      [request = *std::move(request)](const Exchange &exchange,
                                      std::shared_ptr<Backend> backend) {
        const Tokenizer &tokenizer = backend->tokenizer();
        EncodeOptions options;
        options.parseSpecial = request.parsesSpecial;
        if (!request.addsSpecial)
          options.addBos = options.addEos = false;
        auto tokens = tokenizer.encode(request.content, options);
        if (!tokens)
          return exchange.fail(errorOf(tokens.status()));
        Json list = Json::array();
        for (int32_t token : *tokens)
          list.push_back(
              request.hasPieces
                  ? Json{{"id", token},
                         {"piece", pieceJson(tokenizer.tokenBytes(token))}}
                  : Json(token));
        sendJson(*exchange.answer, {{"tokens", std::move(list)}});
      });
}

void detokenize(Exchange exchange) {
  auto request = readBody<DetokenizeRequest>(
      exchange, [](const Field &body, DetokenizeRequest &request) {
        request.model = body["model"].text().value_or("");
        for (const Field &token :
             body["tokens"].required().list(size_t(kMostRequestTokens)))
          request.tokens.push_back(
              int32_t(token.integer(0, INT32_MAX).value_or(0)));
      });
  if (!request)
    return;
  std::string model = request->model;
  withModel(std::move(exchange), model,
            [request = *std::move(request)](const Exchange &exchange,
                                            std::shared_ptr<Backend> backend) {
              sendJson(
                  *exchange.answer,
                  {{"content", backend->tokenizer().decode(request.tokens)}});
            });
}

void applyTemplate(Exchange exchange) {
  auto call =
      readBody<ChatCall>(exchange, [](const Field &body, ChatCall &call) {
        call.generate.model = body["model"].text().value_or("");
        readOpenAiMessages(body["messages"], call);
        readOpenAiTools(body, call);
        readTemplateVariables(body["chat_template_kwargs"], call);
      });
  if (call)
    answerPrompt(std::move(exchange), *std::move(call),
                 [](const ChatPrompt &prompt) -> Json {
                   return {{"prompt", prompt.text}};
                 });
}

void serverProperties(Exchange exchange) {
  std::string model;
  if (auto found = exchange.request.query.find("model");
      found != exchange.request.query.end())
    model = found->second;
  withModel(std::move(exchange), model,
            [](const Exchange &exchange, std::shared_ptr<Backend> backend) {
              const ModelFacts &facts = backend->facts();
              const Tokenizer &tokenizer = backend->tokenizer();
              auto name = [&](std::optional<int32_t> token) {
                return token ? std::string(tokenizer.tokenBytes(*token))
                             : std::string();
              };
              sendJson(
                  *exchange.answer,
                  {{"default_generation_settings",
                    {{"n_ctx", facts.contextTokens},
                     {"params", samplingJson(exchange.settings().sampling)}}},
                   {"total_slots", facts.sequences},
                   {"model_alias", facts.id},
                   {"chat_template", facts.chatTemplate},
                   {"bos_token", name(tokenizer.bos())},
                   {"eos_token", name(tokenizer.eos())},
                   {"modalities", {{"vision", false}, {"audio", false}}},
                   {"build_info", "moert " + exchange.settings().version}});
            });
}

void listAdapters(Exchange exchange) {
  sendJson(*exchange.answer, Json::array());
}

} // namespace moert
