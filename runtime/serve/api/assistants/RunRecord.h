//===- RunRecord.h - A run while it generates -------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_API_ASSISTANTS_RUNRECORD_H
#define MOE_RUNTIME_SERVE_API_ASSISTANTS_RUNRECORD_H

#include "runtime/serve/api/ApiContext.h"

#include <memory>
#include <mutex>
#include <string>

namespace moert {

/// Keeps the store, and the client if it streams, up to date while a run
/// generates. It takes the place of the client as the answer of a generation:
/// the run goes on after its client has left, as what comes of it is stored.
/// Functions may be called from any thread.
class RunRecord final : public HttpAnswer,
                        public std::enable_shared_from_this<RunRecord> {
public:
  using Json = nlohmann::ordered_json;

  /// Generates for `run`, whose status in the store is "queued". With `stream`
  /// all events go there, after `firstEvents`, and then the stream ends.
  /// Without, returns after the generation was submitted.
  static void start(const Exchange &exchange, std::shared_ptr<Backend> backend,
                    Json run, std::shared_ptr<HttpAnswer> stream,
                    std::string firstEvents);

  /// Ends the run as "cancelled", and its generation.
  void cancel();
  /// Replaces the run's metadata; false if the run is over.
  bool setMetadata(Json metadata);

  // The generation's answer.
  void send(int status, std::string_view contentType, std::string body,
            HttpHeaders headers) override;
  void begin(int, std::string_view, HttpHeaders, std::string) override {}
  void write(std::string bytes) override;
  void end() override;
  size_t pendingBytes() const override;
  void onGone(std::function<void()> gone) override;

private:
  class Writer;

  RunRecord(std::shared_ptr<ApiContext> context, std::string owner, Json run,
            std::shared_ptr<HttpAnswer> stream)
      : context_(std::move(context)), owner_(std::move(owner)),
        run_(std::move(run)), stream_(std::move(stream)) {}

  // The following expect the lock. Those that return text return events.
  std::string delta(const Choice &choice, const Delta &delta);
  std::string finish(std::span<const Choice> choices);
  std::string fail(const ApiError &error);
  std::string endRun(const char *status);
  std::string enterMessage();
  std::string leaveMessage(bool isCut);
  std::string enterCalls();
  std::string stepEvents(const Json &step);
  Json newStep(const char *type, Json details) const;
  void store(const char *from);
  void addUsage(std::span<const Choice> choices);
  int64_t now() const;
  std::string newId(const char *prefix) const;

  std::shared_ptr<ApiContext> context_;
  std::string owner_;

  std::mutex mutex_; ///< Guards all members below.
  Json run_;
  std::shared_ptr<HttpAnswer> stream_; ///< Null if nobody listens.
  ReplyFacts facts_;
  std::function<void()> gone_;
  bool isOver_ = false;
  Json message_, messageStep_; ///< Null if no message is open.
  std::string text_;           ///< Text of the open message.
  Json callStep_;              ///< Null if there are no calls.
};

/// The event of a run, a step, a message or a thread that has reached a state.
std::string runEvent(const nlohmann::ordered_json &object,
                     std::string_view state);
/// The end of a stream of events.
inline constexpr std::string_view kRunStreamEnd =
    "event: done\ndata: [DONE]\n\n";

/// Sets the status of a run that is over, and when.
void setRunEnd(nlohmann::ordered_json &run, const std::string &status,
               int64_t now);
/// Ends a run that does not generate, whose status in the store is `from`, and
/// its open step. False if its status is another by now.
bool endIdleRun(ObjectStore &store, nlohmann::ordered_json &run,
                const std::string &from, const std::string &status,
                int64_t now);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_ASSISTANTS_RUNRECORD_H
