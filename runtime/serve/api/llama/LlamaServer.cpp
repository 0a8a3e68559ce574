#include "runtime/serve/api/llama/LlamaServer.h"

#include "runtime/serve/api/CommonFields.h"
#include "runtime/serve/api/Prepare.h"
#include "runtime/serve/api/Prompts.h"
#include "runtime/serve/api/openai/OpenAi.h"
#include "runtime/text/Tokenizer.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
struct TokenizeRequest {
  std::string model;
  std::vector<PromptField> parts;
  bool addsSpecial = false, parsesSpecial = true, hasPieces = false;
};

struct DetokenizeRequest {
  std::string model;
  std::vector<int32_t> tokens;
};

/// A text, or a list in which texts and tokens follow each other.
std::vector<PromptField> readParts(const Field &content) {
  if (content.isText())
    return {{.text = *content.text()}};
  std::vector<PromptField> parts;
  for (const Field &item : content.list(size_t(kMostRequestTokens)))
    if (item.isText())
      parts.push_back({.text = *item.text()});
    else
      parts.push_back(
          {.text = "",
           .tokens = {int32_t(item.integer(0, INT32_MAX).value_or(0))},
           .isTokens = true});
  return parts;
}

/// The index of the first token that the vocabulary does not have.
std::optional<size_t> unknownToken(const Tokenizer &tokenizer,
                                   const std::vector<int32_t> &tokens) {
  auto bad = std::ranges::find_if(tokens, [&](int32_t token) {
    return token >= tokenizer.vocabularySize();
  });
  if (bad == tokens.end())
    return std::nullopt;
  return size_t(bad - tokens.begin());
}

ApiError noSuchToken(const std::string &field, size_t index,
                     const std::vector<int32_t> &tokens) {
  std::string param = fmt::format("{}[{}]", field, index);
  return {.message = fmt::format("{} is {}, which is no token of the model",
                                 param, tokens[index]),
          .param = param};
}

/// The model that a query names; "": the server's first one.
std::string askedModel(const Exchange &exchange) {
  auto found = exchange.request.query.find("model");
  return found == exchange.request.query.end() ? "" : found->second;
}

/// The name of a token; "" if there is none.
std::string tokenName(const Tokenizer &tokenizer,
                      std::optional<int32_t> token) {
  return token ? std::string(tokenizer.tokenBytes(*token)) : std::string();
}

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
} // namespace

Json samplingJson(const SamplerParams &params) {
  return {{"temperature", shownFloat(params.temperature)},
          {"top_k", params.topK},
          {"top_p", shownFloat(params.topP)},
          {"min_p", shownFloat(params.minP)},
          {"repeat_penalty", shownFloat(params.repetitionPenalty)},
          {"repeat_last_n", params.repetitionWindow},
          {"presence_penalty", shownFloat(params.presencePenalty)},
          {"frequency_penalty", shownFloat(params.frequencyPenalty)}};
}

void tokenize(Exchange exchange) {
  auto request = readBody<TokenizeRequest>(
      exchange, [](const Field &body, TokenizeRequest &request) {
        request.model = body["model"].text().value_or("");
        // llama-server's names, and those of vLLM, which adds special tokens
        // unless it is told not to.
        Field content = oneOf({body["content"], body["prompt"]});
        request.parts = readParts(content.required());
        request.addsSpecial =
            body["prompt"] ? body["add_special_tokens"].boolean().value_or(true)
                           : body["add_special"].boolean().value_or(false);
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
        options.deadline = exchange.deadline;
        options.parseSpecial = request.parsesSpecial;
        if (!request.addsSpecial)
          options.addBos = options.addEos = false;
        std::vector<int32_t> all;
        for (const PromptField &part : request.parts) {
          if (auto bad = unknownToken(tokenizer, part.tokens))
            return exchange.fail(noSuchToken("content", *bad, part.tokens));
          all.insert(all.end(), part.tokens.begin(), part.tokens.end());
          if (part.isTokens)
            continue;
          auto tokens = tokenizer.encode(part.text, options);
          if (!tokens)
            return exchange.fail(errorOf(tokens.status()));
          all.insert(all.end(), tokens->begin(), tokens->end());
          // The text is not the beginning of a prompt.
          options.addBos = false;
        }
        Json list = Json::array();
        for (int32_t token : all)
          list.push_back(
              request.hasPieces
                  ? Json{{"id", token},
                         {"piece", pieceJson(tokenizer.tokenBytes(token))}}
                  : Json(token));
        const size_t count = list.size();
        sendJson(*exchange.answer,
                 {{"tokens", std::move(list)},
                  {"count", count},
                  {"max_model_len", backend->facts().contextTokens}});
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
              const Tokenizer &tokenizer = backend->tokenizer();
              if (auto bad = unknownToken(tokenizer, request.tokens))
                return exchange.fail(
                    noSuchToken("tokens", *bad, request.tokens));
              std::string text = tokenizer.decode(request.tokens);
              sendJson(*exchange.answer, {{"content", text}, {"prompt", text}});
            });
}

void applyTemplate(Exchange exchange) {
  auto call =
      readBody<ChatCall>(exchange, [](const Field &body, ChatCall &call) {
        call.generate.model = body["model"].text().value_or("");
        readOpenAiMessages(body["messages"], call);
        readContinuation(body, call);
        readOpenAiTools(body, call);
        readTemplateVariables(body["chat_template_kwargs"], call);
      });
  if (call)
    answerPrompt(std::move(exchange), *std::move(call),
                 [](const ChatPrompt &prompt) -> Json {
                   return {{"prompt", prompt.text}};
                 });
}

void tokenizerInfo(Exchange exchange) {
  const std::string model = askedModel(exchange);
  withModel(std::move(exchange), model,
            [](const Exchange &exchange, std::shared_ptr<Backend> backend) {
              const Tokenizer &tokenizer = backend->tokenizer();
              sendJson(*exchange.answer,
                       {{"tokenizer_class", "moert"},
                        {"vocab_size", tokenizer.vocabularySize()},
                        {"model_max_length", backend->facts().contextTokens},
                        {"bos_token", tokenName(tokenizer, tokenizer.bos())},
                        {"eos_token", tokenName(tokenizer, tokenizer.eos())},
                        {"chat_template", backend->facts().chatTemplate}});
            });
}

void serverProperties(Exchange exchange) {
  const std::string model = askedModel(exchange);
  withModel(std::move(exchange), model,
            [](const Exchange &exchange, std::shared_ptr<Backend> backend) {
              const ModelFacts &facts = backend->facts();
              const Tokenizer &tokenizer = backend->tokenizer();
              sendJson(
                  *exchange.answer,
                  {{"default_generation_settings",
                    {{"n_ctx", facts.contextTokens},
                     {"params", samplingJson(exchange.settings().sampling)}}},
                   {"total_slots", facts.sequences},
                   {"model_alias", facts.id},
                   {"chat_template", facts.chatTemplate},
                   {"bos_token", tokenName(tokenizer, tokenizer.bos())},
                   {"eos_token", tokenName(tokenizer, tokenizer.eos())},
                   {"modalities", {{"vision", false}, {"audio", false}}},
                   {"build_info", "moert " + exchange.settings().version}});
            });
}

void listAdapters(Exchange exchange) {
  sendJson(*exchange.answer, Json::array());
}

} // namespace moert
