#include "runtime/serve/api/Embeddings.h"

#include "runtime/serve/api/CommonFields.h"
#include "runtime/serve/api/Prompts.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <mutex>

namespace moert {

using Json = nlohmann::ordered_json;

namespace {
struct EmbedRequest {
  std::string model;
  std::vector<PromptField> prompts;
  bool isBase64 = false;
  bool truncates = false; ///< Texts are cut to the context.
  size_t dimensions = 0;  ///< Of the vectors; 0: as many as the model has.
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

using WriteEmbeddings = std::function<Json(
    const ModelFacts &, const std::vector<std::vector<float>> &vectors,
    size_t tokens)>;

/// The texts of one request. As many are embedded together as the model has
/// sequences, so that a long list does not fill the queue.
class EmbeddingJob : public std::enable_shared_from_this<EmbeddingJob> {
public:
  EmbeddingJob(Exchange exchange, std::shared_ptr<Backend> backend,
               std::vector<ChatPrompt> prompts, size_t dimensions,
               WriteEmbeddings write)
      : exchange_(std::move(exchange)), backend_(std::move(backend)),
        prompts_(std::move(prompts)), dimensions_(dimensions),
        write_(std::move(write)),
        together_(size_t(std::max(1, backend_->facts().sequences))),
        vectors_(prompts_.size()) {
    exchange_.request.body = {}; // It has been read, and may be large.
  }

  void start() {
    std::weak_ptr<EmbeddingJob> weak = weak_from_this();
    exchange_.answer->onGone([weak] {
      if (std::shared_ptr<EmbeddingJob> job = weak.lock())
        job->cancel();
    });
    advance();
  }

private:
  /// Submits what may run now, and answers after the last one.
  void advance() {
    std::unique_lock lock(mutex_);
    // A backend that answers at once calls this from the loop below.
    if (isSubmitting_)
      return;
    isSubmitting_ = true;
    while (status_.isOk() && running_ < together_ && next_ < prompts_.size()) {
      const size_t index = next_++;
      ++running_;
      tokens_ += prompts_[index].tokens.size();
      lock.unlock();
      const uint64_t name =
          backend_->embed(prompts_[index].tokens, exchange_.request.client,
                          [job = shared_from_this(),
                           index](StatusOr<std::vector<float>> vector) {
                            job->take(index, std::move(vector));
                          });
      lock.lock();
      names_[index] = name;
      if (isGone_)
        backend_->cancel(name);
    }
    isSubmitting_ = false;
    if (running_ > 0 || isAnswered_)
      return;
    isAnswered_ = true;
    lock.unlock();
    // Many vectors take long to write.
    const uint64_t bytes =
        vectors_.empty()
            ? 0
            : vectors_.size() * vectors_.front().size() * sizeof(float);
    exchange_.context->later(exchange_.request.client, bytes,
                             [job = shared_from_this()] { job->answer(); });
  }

  void answer() {
    exchange_.context->usage.add(exchange_.request.client, backend_->facts().id,
                                 {.promptTokens = int32_t(tokens_)});
    if (status_.isOk())
      sendJson(*exchange_.answer, write_(backend_->facts(), vectors_, tokens_));
    else
      exchange_.fail(errorOf(status_, backend_->retryAfterSeconds()));
  }

  /// Nobody waits for the answer any more.
  void cancel() {
    std::lock_guard lock(mutex_);
    isGone_ = true;
    next_ = prompts_.size();
    for (auto [index, name] : names_)
      backend_->cancel(name);
  }

  void take(size_t index, StatusOr<std::vector<float>> vector) {
    {
      std::lock_guard lock(mutex_);
      if (vector) {
        shorten(*vector, dimensions_);
        vectors_[index] = *std::move(vector);
      } else if (status_.isOk())
        status_ = vector.status();
      --running_;
      names_.erase(index);
    }
    advance();
  }

  Exchange exchange_;
  const std::shared_ptr<Backend> backend_;
  const std::vector<ChatPrompt> prompts_;
  const size_t dimensions_;
  const WriteEmbeddings write_;
  const size_t together_; ///< Most texts that are embedded at the same time.
  std::mutex mutex_;
  // Under the lock, and unchanged once `isAnswered_`.
  std::vector<std::vector<float>> vectors_;
  size_t next_ = 0, running_ = 0, tokens_ = 0;
  bool isSubmitting_ = false, isAnswered_ = false, isGone_ = false;
  std::map<size_t, uint64_t> names_; ///< Of those that run, for cancel().
  Status status_;                    ///< Of the first that failed.
};

void embedAll(Exchange exchange, EmbedRequest request, WriteEmbeddings write) {
  std::string model = request.model;
  withModel(std::move(exchange), model,
            [request = std::move(request), write = std::move(write)](
                const Exchange &exchange, std::shared_ptr<Backend> backend) {
              auto prompts = promptsOf(*backend, request.prompts, "input");
              if (auto *error = std::get_if<ApiError>(&prompts))
                return exchange.fail(*error);
              auto texts =
                  std::get<std::vector<ChatPrompt>>(std::move(prompts));
              // One token more than the text's is evaluated.
              const int32_t room = backend->facts().contextTokens - 1;
              for (ChatPrompt &text : texts)
                if (request.truncates && room > 0 &&
                    int64_t(text.tokens.size()) > room)
                  text.tokens.resize(size_t(room));
              std::make_shared<EmbeddingJob>(exchange, std::move(backend),
                                             std::move(texts),
                                             request.dimensions, write)
                  ->start();
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

void rankDocuments(Exchange exchange) {
  auto model = readBody<std::string>(
      exchange, [](const Field &body, std::string &model) {
        model = body["model"].text().value_or("");
        (void)body["query"].required().text();
        (void)body["documents"].required().list(kMostPrompts);
      });
  if (!model)
    return;
  withModel(std::move(exchange), *model,
            [](const Exchange &exchange, std::shared_ptr<Backend> backend) {
              exchange.fail(
                  {.status = 501,
                   .message = fmt::format(
                       "the model {} gives no scores: plans have no "
                       "classifiers, which rerankers end in; compare the "
                       "vectors of /v1/embeddings",
                       backend->facts().id),
                   .code = "not_supported"});
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
