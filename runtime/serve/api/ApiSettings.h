//===- ApiSettings.h - What the interfaces may be told ----------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_API_APISETTINGS_H
#define MOE_RUNTIME_SERVE_API_APISETTINGS_H

#include "runtime/serve/store/ObjectStore.h"
#include "runtime/text/Sampler.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace moert {

struct ApiSettings {
  /// Values for requests that do not give others.
  SamplerParams sampling;
  /// The most tokens of an answer, for requests that set no limit; -1: none.
  int32_t maxTokens = -1;
  /// Names of special tokens inside messages are ordinary text, so that
  /// nobody's text ends a turn.
  bool noSpecial = true;
  /// With one model: whether requests for any other name get it. The answer
  /// says which model it was.
  bool acceptsAnyModel = true;
  /// Seed for requests that give none; absent: each gets its own.
  std::optional<uint64_t> seed = {};
  std::string version = "0.1.0"; ///< Version of the server.
  /// How long a request may be worked on before it is evaluated: to read it,
  /// compile its grammar, render its template and cut its text into tokens. An
  /// error beyond, which says what took so long. 0: without end.
  std::chrono::milliseconds prepareTime{30'000};

  /// Runs a job on a thread that may take its time, in turn for clients:
  /// `bytes` are those that it works on. For what goes on with a request on a
  /// thread that others wait for, such as a scheduler's. Called from any
  /// thread. Empty: at once.
  std::function<void(const std::string &client, uint64_t bytes,
                     std::function<void()> job)>
      later = {};

  /// Store of assistants, threads and responses; null: they are in memory until
  /// the server ends.
  std::shared_ptr<ObjectStore> store = {};
  /// Responses of one client that are kept there for requests that continue
  /// them: the last ones, by number and by bytes.
  size_t keptResponses = 1024;
  size_t keptResponseBytes = size_t{64} << 20;

  /// Returns what /metrics ends with, in Prometheus's text format. Called from
  /// any thread. Empty: nothing.
  std::function<std::string()> moreMetrics = {};
  /// The page that shows where the parts of a model run (moec explain --html),
  /// by the model's name; empty: the server has none. Called from any thread.
  std::function<StatusOr<std::string>(const std::string &)> placementPage = {};

  /// Called from any thread with a line about a request: what of it has no
  /// effect. It has names and words of the request, but no texts. Empty: no
  /// log.
  std::function<void(const std::string &)> log = {};

  /// Seconds since 1970, and random numbers for ids and seeds. Called from any
  /// thread. Empty: the system's.
  std::function<int64_t()> now = {};
  std::function<uint64_t()> random = {};
};

// Limits of requests.
inline constexpr int kMostRequestNesting = 100;
inline constexpr int32_t kMostChoices = 128;
inline constexpr size_t kMostStops = 16;
inline constexpr int32_t kMostTopLogprobs = 20;
inline constexpr size_t kMostMessages = 65536;
inline constexpr size_t kMostTools = 1024;
/// The most prompts of a request, and the most choices of all its prompts.
inline constexpr size_t kMostPrompts = 2048;
inline constexpr int32_t kMostRequestTokens = 1 << 30;
/// Memory of the values of a member of the body, but for its texts: they are
/// copied several times.
inline constexpr size_t kMostFieldBytes = size_t(32) << 20;

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_APISETTINGS_H
