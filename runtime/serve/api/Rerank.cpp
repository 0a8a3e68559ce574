#include "runtime/serve/api/Rerank.h"

#include "runtime/serve/api/ApiSettings.h"
#include "runtime/serve/api/CommonFields.h"
#include "runtime/serve/api/VectorJob.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
struct RankRequest {
  std::string model, query;
  std::vector<std::string> documents;
  size_t most = 0;         ///< The most results.
  bool givesTexts = false; ///< Whether results repeat their documents.
  /// Whether the form is that of text-embeddings-inference.
  bool isPlainList = false;
};

/// A document is a text, or an object with one.
std::string readDocument(const Field &field) {
  if (field.isText())
    return *field.text();
  return field["text"].required().text().value_or("");
}

void readRequest(const Field &body, RankRequest &request) {
  request.model = body["model"].text().value_or("");
  request.query = body["query"].required().text().value_or("");
  const Field texts = oneOf({body["documents"], body["texts"]});
  request.isPlainList = bool(body["texts"]);
  for (const Field &document : texts.required().list(kMostPrompts))
    request.documents.push_back(readDocument(document));
  const auto all = int64_t(request.documents.size());
  request.most =
      size_t(std::min(all, body["top_n"].integer(1, INT32_MAX).value_or(all)));
  request.givesTexts = oneOf({body["return_documents"], body["return_text"]})
                           .boolean()
                           .value_or(false);
}

/// Puts `text` in place of the first `place` in `prompt`; false without one.
bool replacePlace(std::string &prompt, std::string_view place,
                  std::string_view text) {
  const size_t at = prompt.find(place);
  if (at == std::string::npos)
    return false;
  prompt.replace(at, place.size(), text);
  return true;
}

Json write(const RankRequest &request, const ModelFacts &facts,
           const std::vector<std::vector<float>> &outputs, size_t tokens) {
  std::vector<double> scores;
  for (const std::vector<float> &each : outputs)
    scores.push_back(relevanceOf(each));
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::ranges::stable_sort(order, std::greater(),
                           [&](size_t i) { return scores[i]; });
  order.resize(request.most);
  Json results = Json::array();
  for (size_t index : order) {
    Json &result = results.emplace_back(Json{{"index", index}});
    result[request.isPlainList ? "score" : "relevance_score"] = scores[index];
    if (!request.givesTexts)
      continue;
    if (request.isPlainList)
      result["text"] = request.documents[index];
    else
      result["document"] = {{"text", request.documents[index]}};
  }
  if (request.isPlainList)
    return results;
  return {{"model", facts.id},
          {"object", "list"},
          {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}},
          {"results", std::move(results)}};
}

/// Returns the prompts of all documents; errors name the document.
std::variant<std::vector<ChatPrompt>, ApiError>
promptsFor(const Backend &backend, const RankRequest &request,
           const Deadline &deadline) {
  const ModelFacts &facts = backend.facts();
  if (facts.labels.empty() || facts.rankTemplate.empty())
    return ApiError{
        .status = 501,
        .message = fmt::format(
            "the model {} does not rank documents: its file has no {}; serve a "
            "reranker, or compare the vectors of /v1/embeddings",
            facts.id,
            facts.labels.empty() ? "classifier (cls.output.weight)"
                                 : "tokenizer.chat_template.rerank"),
        .code = "not_supported"};
  std::vector<ChatPrompt> prompts;
  for (const std::string &document : request.documents) {
    auto prompt = rankPrompt(backend.tokenizer(), facts.rankTemplate,
                             request.query, document, deadline);
    if (prompt && int64_t(prompt->tokens.size()) <= facts.contextTokens) {
      prompts.push_back(*std::move(prompt));
      continue;
    }
    ApiError error =
        prompt ? ApiError{.message = fmt::format(
                              "the query and the document have {} tokens with "
                              "the model's template, its context {}; shorten "
                              "them or serve it with a larger context (-c)",
                              prompt->tokens.size(), facts.contextTokens)}
               : errorOf(prompt.status());
    error.param = fmt::format(
        "{}[{}]", request.isPlainList ? "texts" : "documents", prompts.size());
    return error;
  }
  return prompts;
}
} // namespace

double relevanceOf(std::span<const float> outputs) {
  if (outputs.size() == 1)
    return outputs[0];
  double sum = 0;
  for (float output : outputs)
    sum += std::exp(double(output) - outputs[0]);
  return 1 / sum;
}

StatusOr<ChatPrompt> rankPrompt(const Tokenizer &tokenizer,
                                std::string_view rankTemplate,
                                std::string_view query,
                                std::string_view document,
                                const Deadline &deadline) {
  ChatPrompt prompt{.text = std::string(rankTemplate), .tokens = {}};
  const auto broken = [&](std::string_view text) {
    return tokenizer.breakNames(text, kNameBreaker);
  };
  // A place that a query or a document contains is not one of the template.
  const size_t at = prompt.text.find("{document}");
  std::string rest = at == std::string::npos ? "" : prompt.text.substr(at);
  const bool isFirst = at < prompt.text.find("{query}");
  if (at != std::string::npos)
    prompt.text.resize(at);
  std::string &withQuery = isFirst ? rest : prompt.text;
  if (rest.empty() || !replacePlace(withQuery, "{query}", broken(query)))
    return Status(StatusCode::Unsupported,
                  "tokenizer.chat_template.rerank of the model's file lacks "
                  "{query} or {document}");
  replacePlace(rest, "{document}", broken(document));
  prompt.text += rest;
  MOE_ASSIGN_OR_RETURN(prompt.tokens,
                       tokenizer.encode(prompt.text, {.addEos = false,
                                                      .breaker = kNameBreaker,
                                                      .deadline = deadline}));
  return prompt;
}

void rankDocuments(Exchange exchange) {
  auto request = readBody<RankRequest>(exchange, readRequest);
  if (!request)
    return;
  std::string model = request->model;
  withModel(std::move(exchange), model,
            [request = *std::move(request)](const Exchange &exchange,
                                            std::shared_ptr<Backend> backend) {
              auto prompts = promptsFor(*backend, request, exchange.deadline);
              if (auto *error = std::get_if<ApiError>(&prompts))
                return exchange.fail(*error);
              answerWithVectors(
                  exchange, std::move(backend),
                  std::get<std::vector<ChatPrompt>>(std::move(prompts)),
                  &Backend::classify,
                  [request](const ModelFacts &facts,
                            const std::vector<std::vector<float>> &outputs,
                            size_t tokens) {
                    return write(request, facts, outputs, tokens);
                  });
            });
}

} // namespace moert
