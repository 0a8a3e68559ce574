//===- ServedModel.h - A plan that is ready for requests --------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_HOST_SERVEDMODEL_H
#define MOE_RUNTIME_SERVE_HOST_SERVEDMODEL_H

#include "runtime/engine/Engine.h"
#include "runtime/serve/Scheduler.h"
#include "runtime/serve/api/Backend.h"

#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace moert {

/// Returns what clients are told about a plan, which need not be loaded.
/// `path` is its file, `id` the name by which requests choose it.
ModelFacts factsOf(const Plan &plan, const std::string &path, std::string id);

/// An engine with its tokenizer, chat template and scheduler. Must not be
/// destroyed by a sink of one of its generations.
class ServedModel final : public Backend {
public:
  /// Opens the plan. Fails as Engine::open() and Scheduler::create() do, and
  /// with Unsupported for a plan without a tokenizer. Texts are embedded by
  /// `pooling`, or if it is not set as the plan says, or else by the mean.
  /// `chat` replaces the plan's template.
  static StatusOr<std::unique_ptr<ServedModel>>
  open(const std::string &path, std::string id, const EngineOptions &engine,
       const SchedulerOptions &scheduler, std::optional<Pooling> pooling = {},
       const TemplateSettings &chat = {});

  const ModelFacts &facts() const override { return facts_; }
  const Tokenizer &tokenizer() const override { return *tokenizer_; }
  const ChatFormat *chatFormat() const override {
    return chat_ ? &*chat_ : nullptr;
  }
  StatusOr<uint64_t> submit(GenerationRequest request,
                            GenerationSink sink) override;
  uint64_t embed(std::vector<int32_t> tokens, std::string client,
                 VectorThen then) override;
  uint64_t classify(std::vector<int32_t> tokens, std::string client,
                    VectorThen then) override;
  void cancel(uint64_t id) override { scheduler_->cancel(id); }
  int32_t retryAfterSeconds() const override {
    return scheduler_->retryAfterSeconds();
  }
  BackendStats stats() const override;
  std::vector<BackendSlot> slots() const override;

  /// Reads only this member of the engine, because the others belong to the
  /// scheduler's thread.
  const MemoryFit &fit() const { return engine_->fit(); }
  /// Scheduler::drain().
  bool drain(std::chrono::steady_clock::time_point deadline) {
    return scheduler_->drain(deadline);
  }

private:
  ServedModel() = default;

  /// Submits a request whose last event has a vector, which `then` gets.
  uint64_t submitFor(GenerationRequest request,
                     std::vector<float> GenerationEvent::*vector,
                     VectorThen then);

  ModelFacts facts_;
  StatusOr<Pooling> pooling_ = Pooling::Mean;
  std::unique_ptr<Engine> engine_;
  std::optional<Tokenizer> tokenizer_;
  std::optional<ChatFormat> chat_;
  /// Destroyed before the members that it uses.
  std::unique_ptr<Scheduler> scheduler_;
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_HOST_SERVEDMODEL_H
