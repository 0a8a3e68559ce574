#include "runtime/serve/api/Embeddings.h"

#include "runtime/serve/api/Prompts.h"

#include <bit>
#include <mutex>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
struct EmbedRequest {
  std::string model;
  std::vector<PromptField> prompts;
  bool isBase64 = false;
};

/// The vectors of one request, which come in any order.
struct Embeddings {
  std::mutex mutex;
  std::vector<std::vector<float>> vectors;
  size_t missing = 0;
  size_t tokens = 0;
  Status status; ///< Of the first that failed.
};

using WriteEmbeddings = std::function<Json(const ModelFacts &, Embeddings &)>;

void embedAll(Exchange exchange, EmbedRequest request, WriteEmbeddings write) {
  std::string model = request.model;
  withModel(std::move(exchange), model,
            [request = std::move(request), write = std::move(write)](
                const Exchange &exchange, std::shared_ptr<Backend> backend) {
              auto prompts = promptsOf(*backend, request.prompts, "input");
              if (auto *error = std::get_if<ApiError>(&prompts))
                return exchange.fail(*error);
              auto &list = std::get<std::vector<ChatPrompt>>(prompts);
              auto all = std::make_shared<Embeddings>();
              all->vectors.resize(list.size());
              all->missing = list.size();
              for (size_t i = 0; i < list.size(); ++i) {
                all->tokens += list[i].tokens.size();
                backend->embed(
                    list[i].tokens, [all, i, exchange, backend, write](
                                        StatusOr<std::vector<float>> vector) {
                      std::lock_guard lock(all->mutex);
                      if (vector)
                        all->vectors[i] = *std::move(vector);
                      else if (all->status)
                        all->status = vector.status();
                      if (--all->missing > 0)
                        return;
                      if (all->status)
                        sendJson(*exchange.answer,
                                 write(backend->facts(), *all));
                      else
                        exchange.fail(
                            errorOf(all->status, backend->retryAfterSeconds()));
                    });
              }
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
        body["dimensions"].refuse("vectors have the model's dimensions");
      });
  if (!request)
    return;
  bool isBase64 = request->isBase64;
  embedAll(std::move(exchange), *std::move(request),
           [isBase64](const ModelFacts &facts, Embeddings &all) {
             Json data = Json::array();
             for (size_t i = 0; i < all.vectors.size(); ++i)
               data.push_back(
                   {{"object", "embedding"},
                    {"index", i},
                    {"embedding", isBase64 ? Json(base64Floats(all.vectors[i]))
                                           : Json(all.vectors[i])}});
             return Json{{"object", "list"},
                         {"data", std::move(data)},
                         {"model", facts.id},
                         {"usage",
                          {{"prompt_tokens", all.tokens},
                           {"total_tokens", all.tokens}}}};
           });
}

void ollamaEmbed(Exchange exchange) {
  auto request = readBody<EmbedRequest>(
      exchange, [](const Field &body, EmbedRequest &request) {
        request.model = body["model"].required().text().value_or("");
        request.prompts = readPrompts(body["input"].required());
        (void)body["truncate"].boolean();
        body["dimensions"].refuse("vectors have the model's dimensions");
      });
  if (request)
    embedAll(std::move(exchange), *std::move(request),
             [](const ModelFacts &facts, Embeddings &all) {
               return Json{{"model", facts.id},
                           {"embeddings", all.vectors},
                           {"prompt_eval_count", all.tokens}};
             });
}

} // namespace moert
