#include "runtime/serve/api/Embeddings.h"

#include "runtime/serve/api/CommonFields.h"
#include "runtime/serve/api/Prompts.h"
#include "runtime/serve/api/VectorJob.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
struct EmbedRequest {
  std::string model;
  std::vector<PromptField> prompts;
  bool isBase64 = false;
  bool truncates = false; ///< Whether texts are cut to the context.
  size_t dimensions = 0; ///< Elements of a vector; 0: as many as the model has.
};

/// Reads `dimensions`: the first ones of a vector are a vector of length 1 too,
/// once they are scaled.
void readDimensions(const Field &body, EmbedRequest &request) {
  constexpr int64_t most = 1 << 20;
  request.dimensions = size_t(body["dimensions"].integer(1, most).value_or(0));
}

void shorten(std::vector<float> &vector, size_t dimensions) {
  if (dimensions == 0 || dimensions >= vector.size())
    return;
  vector.resize(dimensions);
  double sum = 0;
  for (float value : vector)
    sum += double(value) * value;
  if (sum > 0)
    for (float &value : vector)
      value = float(value / std::sqrt(sum));
}

void embedAll(Exchange exchange, EmbedRequest request, WriteVectors write) {
  std::string model = request.model;
  withModel(
      std::move(exchange), model,
      [request = std::move(request), write = std::move(write)](
          const Exchange &exchange, std::shared_ptr<Backend> backend) mutable {
        // The text and one more token are evaluated.
        const int32_t room = backend->facts().contextTokens - 1;
        const int32_t most = request.truncates && room > 0 ? room : 0;
        auto prompts = promptsOf(
            *backend, std::move(request.prompts),
            {.param = "input", .most = most, .deadline = exchange.deadline});
        if (auto *error = std::get_if<ApiError>(&prompts))
          return exchange.fail(*error);
        auto texts = std::get<std::vector<ChatPrompt>>(std::move(prompts));
        for (ChatPrompt &text : texts)
          if (most > 0 && text.tokens.size() > size_t(most))
            text.tokens.resize(size_t(most));
        answerWithVectors(
            exchange, std::move(backend), std::move(texts), &Backend::embed,
            [write, dimensions = request.dimensions](
                const ModelFacts &facts,
                std::vector<std::vector<float>> vectors, size_t tokens) {
              for (std::vector<float> &vector : vectors)
                shorten(vector, dimensions);
              return write(facts, std::move(vectors), tokens);
            });
      });
}
} // namespace

std::string base64Floats(std::span<const float> values) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  for (float value : values)
    for (int shift = 0; shift < 32; shift += 8)
      bytes += char(std::bit_cast<uint32_t>(value) >> shift & 0xFF);
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k)
      group = group << 8 | (i + k < bytes.size() ? uint8_t(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k)
      text += i + k <= bytes.size() ? digits[group >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

void createEmbeddings(Exchange exchange) {
  auto request = readBody<EmbedRequest>(
      exchange, [](const Field &body, EmbedRequest &request) {
        request.model = body["model"].text().value_or("");
        request.prompts = readPrompts(body["input"].required());
        request.isBase64 =
            body["encoding_format"].word({"float", "base64"}) == "base64";
        readDimensions(body, request);
      });
  if (!request)
    return;
  bool isBase64 = request->isBase64;
  embedAll(
      std::move(exchange), *std::move(request),
      [isBase64](const ModelFacts &facts, const auto &vectors, size_t tokens) {
        Json data = Json::array();
        for (size_t i = 0; i < vectors.size(); ++i)
          data.push_back(
              {{"object", "embedding"},
               {"index", i},
               {"embedding",
                isBase64 ? Json(base64Floats(vectors[i])) : Json(vectors[i])}});
        return Json{
            {"object", "list"},
            {"data", std::move(data)},
            {"model", facts.id},
            {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}};
      });
}

void ollamaEmbedding(Exchange exchange) {
  auto request = readBody<EmbedRequest>(
      exchange, [](const Field &body, EmbedRequest &request) {
        request.model = body["model"].required().text().value_or("");
        request.prompts = readPrompts(body["prompt"].required());
        if (request.prompts.size() != 1)
          body["prompt"].fail("expected one text; /api/embed takes several");
      });
  if (request)
    embedAll(std::move(exchange), *std::move(request),
             [](const ModelFacts &, const auto &vectors, size_t) {
               return Json{{"embedding", vectors[0]}};
             });
}

void ollamaEmbed(Exchange exchange) {
  auto request = readBody<EmbedRequest>(
      exchange, [](const Field &body, EmbedRequest &request) {
        request.model = body["model"].required().text().value_or("");
        // An empty text, or list, asks for the model to be loaded.
        if (Field input = body["input"].required();
            input && input.json() != "" && input.json() != Json::array())
          request.prompts = readPrompts(input);
        request.truncates = body["truncate"].boolean().value_or(true);
        readDimensions(body, request);
      });
  if (request)
    embedAll(std::move(exchange), *std::move(request),
             [](const ModelFacts &facts, const auto &vectors, size_t tokens) {
               return Json{{"model", facts.id},
                           {"embeddings", vectors},
                           {"prompt_eval_count", tokens}};
             });
}

void llamaEmbedding(Exchange exchange) {
  auto request = readBody<EmbedRequest>(
      exchange, [](const Field &body, EmbedRequest &request) {
        request.model = body["model"].text().value_or("");
        Field texts = oneOf({body["content"], body["input"]});
        request.prompts = readPrompts(texts.required());
      });
  if (request)
    embedAll(std::move(exchange), *std::move(request),
             [](const ModelFacts &, const auto &vectors, size_t) {
               Json list = Json::array();
               for (size_t i = 0; i < vectors.size(); ++i)
                 list.push_back(
                     {{"index", i}, {"embedding", Json::array({vectors[i]})}});
               return list;
             });
}

} // namespace moert
