//===- Backend.h - What the interfaces ask of models ------------*- C++ -*-===//
//
// The interfaces (OpenAI's, Anthropic's, Ollama's, llama-server's) turn
// requests into generations and events into bytes. What generates, and which
// models there are, they ask here.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_SERVE_API_BACKEND_H
#define MOE_RUNTIME_SERVE_API_BACKEND_H

#include "runtime/base/Status.h"
#include "runtime/chat/ChatFormat.h"
#include "runtime/serve/Generation.h"
#include "runtime/text/Tokenizer.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace moert {

/// Facts about a model for clients.
struct ModelFacts {
  std::string id;           ///< Name by which requests choose the model.
  std::string architecture; ///< Name as in the model's file: "qwen3moe".
  std::string quantization; ///< Format of most weights: "Q4_K"; "": not known.
  std::string digest; ///< Hash of the model's file, in hexadecimal; may be "".
  std::string chatTemplate; ///< Source of the template; "" if there is none.
  std::string rankTemplate = {}; ///< Result of planRankTemplate().
  /// Names of the classifier's outputs; none for a model that writes text.
  std::vector<std::string> labels = {};
  int64_t created = 0; ///< Time of the plan's file, in seconds since 1970.
  uint64_t bytes = 0;  ///< Bytes of the weights.
  uint64_t parameters = 0;
  /// The most tokens of one sequence: prompt and reply.
  int32_t contextTokens = 0;
  /// The most sequences that are generated at the same time.
  int32_t sequences = 1;
  bool isLoaded = true;
};

/// Counts since the start and states of now, for /metrics.
struct BackendStats {
  uint64_t queued = 0, running = 0;       ///< Number of generations now.
  uint64_t pagesTotal = 0, pagesFree = 0; ///< Number of pages of the cache now.
  uint64_t pageTokens = 0; ///< Tokens that fit in a page of the cache.
  /// Free pages that nothing holds, and the most that finished texts hold.
  uint64_t pagesEmpty = 0, pagesKept = 0;
  uint64_t promptTokens = 0; ///< Tokens of all prompts that were begun.
  /// Part of promptTokens that was found in the cache.
  uint64_t cachedTokens = 0;
  uint64_t evaluatedTokens = 0; ///< Prompt tokens that steps have evaluated.
  uint64_t generatedTokens = 0;
  uint64_t draftedTokens = 0, acceptedTokens = 0; ///< Tokens of speculation.
  /// Numbers of requests.
  uint64_t finished = 0, failed = 0, cancelled = 0, refused = 0;
  /// Steps by their time: how many took up to so many seconds, by ascending
  /// seconds, without those of the entry before.
  std::vector<std::pair<double, uint64_t>> steps;
  /// Number of steps slower than the last entry of `steps`.
  uint64_t slowerSteps = 0;
  double stepSeconds = 0; ///< Sum over all steps.
  /// Figures of a few steps that were measured: their seconds, and of each
  /// device the seconds in which it worked and in which it waited.
  struct Device {
    std::string name;
    double run = 0, wait = 0;
  };
  double measuredSeconds = 0;
  std::vector<Device> devices;
};

/// One running or waiting generation, for /slots.
struct BackendSlot {
  uint64_t id = 0;
  std::string client, state; ///< `state` is "queued", "prompt" or "decode".
  int32_t promptTokens = 0;
  int32_t position = 0; ///< Number of the sequence's tokens in the cache.
  int32_t generatedTokens = 0;
};

/// How a loaded model writes text. All functions may be called from any thread.
class ServedText {
public:
  virtual ~ServedText() = default;

  virtual const ModelFacts &facts() const = 0;
  virtual const Tokenizer &tokenizer() const = 0;
  /// Null for a model that has no chat template.
  virtual const ChatFormat *chatFormat() const = 0;
};

/// A loaded model. All functions may be called from any thread and return at
/// once.
class Backend : public ServedText {
public:
  /// Queues a generation and returns its name for cancel(). Fails with
  /// DoesNotFit if the queue is full, with Cancelled while the server stops,
  /// with Usage if the request cannot be served at any time; then `sink` is not
  /// called. Events may come before this returns.
  virtual StatusOr<uint64_t> submit(GenerationRequest request,
                                    GenerationSink sink) = 0;
  /// Cancels a generation, whose last event still comes. Does nothing after
  /// that event.
  virtual void cancel(uint64_t id) = 0;
  /// Seconds after which a request may be sent again that was refused for lack
  /// of room.
  virtual int32_t retryAfterSeconds() const = 0;

  virtual BackendStats stats() const = 0;
  virtual std::vector<BackendSlot> slots() const = 0;

  /// Calls `then` once, from any thread, with the pooled hidden state of
  /// `tokens` at length 1. `client` is as in GenerationRequest. Fails as
  /// submit() does, and with Unsupported if the model has no use for it.
  /// Returns its name for cancel(), or 0 if `then` was called at once.
  using VectorThen = std::function<void(StatusOr<std::vector<float>>)>;
  virtual uint64_t embed(std::vector<int32_t> tokens, std::string client,
                         VectorThen then) = 0;
  /// Submits a text in the same way; the result is the outputs of the model's
  /// classifier after `tokens`, one for each of ModelFacts::labels, before any
  /// softmax.
  virtual uint64_t classify(std::vector<int32_t> tokens, std::string client,
                            VectorThen then) = 0;
};

/// The models of a server.
class ModelHost {
public:
  virtual ~ModelHost() = default;

  /// Returns all models in the order of their names, loaded or not.
  virtual std::vector<ModelFacts> models() const = 0;
  /// Returns the models that are loaded.
  virtual std::vector<std::shared_ptr<Backend>> loaded() const = 0;

  /// Calls `then` once with the model of this name, at once or from another
  /// thread when it has been loaded; "" is the first one. Fails with Usage for
  /// a name that is not among models(), with DoesNotFit if there is no memory
  /// for it now.
  using OpenThen = std::function<void(StatusOr<std::shared_ptr<Backend>>)>;
  virtual void open(const std::string &name, OpenThen then) = 0;

  /// Says for how long a model of this name is kept after its last use: not
  /// set: as the server's settings say; milliseconds::max(): for ever; 0: it is
  /// unloaded as soon as nobody uses it. Without effect for a host of one
  /// model, which its clients could only load again.
  using KeepTime = std::optional<std::chrono::milliseconds>;
  virtual void keep(const std::string &name, KeepTime time) = 0;
  /// How long a model that is loaded stays so, if nobody uses it from now on;
  /// not set: for ever.
  virtual KeepTime keptFor(const std::string &name) const = 0;

  /// Whether requests can be served: "ok", "loading" or "draining", and the
  /// part that has been loaded, from 0 to 1.
  struct Health {
    std::string state = "ok";
    double progress = 1;
  };
  virtual Health health() const = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_BACKEND_H
