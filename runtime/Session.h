//===- Session.h - A plan that is ready to run ------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_SESSION_H
#define MOE_RUNTIME_SESSION_H

#include "runtime/Devices.h"
#include "runtime/MemoryFit.h"
#include "runtime/Plan.h"
#include "runtime/WeightFiles.h"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

struct SessionOptions {
  int threads = 0; ///< 0: one worker per physical core this process may use.
  /// Pin workers to CPUs, one per physical core before any hyper-thread
  /// sibling, spread over memory nodes; each node then reads its own part of
  /// the weights. The calling thread is pinned only while it works.
  bool pin = false;
  /// Where the system describes the machine; tests describe others.
  std::string systemRoot = "/sys";
  /// Copy weights into private memory instead of mapping their files; when
  /// pinned, each node's part into its own memory.
  bool copyWeights = false;
  /// Run although mapped weights are more than memory holds: pages of them are
  /// then read from the disk for every token (MemoryFit.h).
  bool allowPaging = false;
  /// Where files are now, if not where they were at compile time.
  WeightPaths files = {};
  /// See CpuDeviceOptions; for tests.
  std::function<void(BoundInstruction &, ArgumentStore &)> instrument = {};
};

/// What one run of a phase took.
struct StepTimes {
  std::string_view phase;
  moek::Step step;
  double seconds; ///< All of it, waking the workers included.
  /// In the order of the phase's instructions in the plan.
  std::span<const InstructionTime> instructions;
};

/// One sequence of tokens over one plan: the KV cache, the position in it, and
/// the workers. Not thread-safe.
class Session {
public:
  /// Fails as Plan::load, Plan::checkMachine, WeightFiles::open and checkFit
  /// do, and where instructions do not match their operands (InvalidFile). As
  /// openWithPlan: a recompilation meanwhile does no harm.
  static StatusOr<std::unique_ptr<Session>>
  open(const std::string &planPath, const SessionOptions &options = {});
  static StatusOr<std::unique_ptr<Session>>
  create(Plan plan, const SessionOptions &options = {});

  const Plan &plan() const { return plan_; }
  int32_t vocab() const { return vocab_; }
  int32_t context() const { return context_; }
  int32_t threads() const { return devices_->threads(); }
  /// Largest step: tokens of a long prompt that are processed together.
  int32_t ubatch() const;
  /// Tokens in the cache.
  int32_t position() const { return position_; }

  /// Forgets all tokens from `position` on, at most the current one.
  Status rewind(int32_t position);

  /// For the end of a message: the command that compiles this plan for a
  /// context of `tokens`, or why there is none.
  std::string contextHint(int64_t tokens) const;

  /// Appends `tokens`, at least one, in as few steps as the plan's phases
  /// allow, and returns the logits after the last: [vocab], valid until the
  /// next call. Fails with DoesNotFit when the context would be exceeded, with
  /// Usage for an id outside the vocabulary, with Cancelled, with InvalidFile
  /// where a token's hidden state or a logit is not finite (the message names
  /// tensor or op); tokens whose step had finished well stay.
  StatusOr<std::span<const float>> prefill(std::span<const int32_t> tokens);

  /// Appends one token through the decode phase.
  StatusOr<std::span<const float>> decode(int32_t token);

  /// Receives logits [rows, vocab] of tokens first ... first + rows - 1.
  using LogitsSink = std::function<Status(size_t first, size_t rows,
                                          std::span<const float> logits)>;
  /// Like prefill(), with the logits after every token, in order, in pieces.
  Status prefillAll(std::span<const int32_t> tokens, const LogitsSink &sink);

  /// The files that weights are read from.
  std::vector<std::string> weightPaths() const { return files_->paths(); }
  /// What it takes of the machine's memory.
  const MemoryFit &fit() const { return memory_; }

  /// How much of the weights was touched so far, and how they are mapped.
  MappedFile::PageUse weightPages() const { return files_->pageUse(); }

  /// When set by another thread or a signal handler, the running call ends with
  /// Cancelled. Null for none; must outlive the session's use of it.
  void setCancel(const std::atomic<bool> *cancel) { cancel_ = cancel; }

  /// Called after each run of a phase from now on; null for none. Timing costs
  /// some 50 ns an instruction.
  using StepObserver = std::function<void(const StepTimes &)>;
  void setObserver(StepObserver observer) { observer_ = std::move(observer); }

private:
  explicit Session(Plan plan) : plan_(std::move(plan)) {}

  static StatusOr<std::unique_ptr<Session>>
  withFiles(Plan plan, const SessionOptions &options);
  /// All that remains when the files are open.
  Status prepare(const SessionOptions &options);
  Status createDevices(DevicesOptions options);
  /// The line with the command that makes this plan with another `option`.
  std::string recompiled(std::string_view option, std::string value) const;
  Status checkTokens(std::span<const int32_t> tokens) const;
  const RunnablePhase &phaseFor(size_t remaining) const;
  Status runPhase(const RunnablePhase &phase, const moek::Step &step);
  /// Runs the leading tokens that `phase` takes; returns how many. Their hidden
  /// rows are then in its output, all of them finite.
  StatusOr<size_t> step(const RunnablePhase &phase,
                        std::span<const int32_t> tokens);
  /// Logits of `rows` hidden rows, at most logits_->maxTokens, outside the
  /// arena.
  StatusOr<std::span<const float>> head(const float *hidden, size_t rows);

  Plan plan_;
  MemoryFit memory_;
  std::vector<std::string> modelPaths_; ///< The user's, for messages.
  std::optional<WeightFiles> files_;
  std::unique_ptr<Devices> devices_;
  RunnablePhase decode_, logits_;
  std::optional<RunnablePhase> prefill_;
  std::vector<float> hidden_; ///< Rows between a phase and the head.
  int64_t hiddenSize_ = 0;
  int32_t vocab_ = 0, context_ = 0, position_ = 0;
  const std::atomic<bool> *cancel_ = nullptr;
  StepObserver observer_;
  std::vector<InstructionTime> times_; ///< Of the running step, if observed.
};

} // namespace moert

#endif // MOE_RUNTIME_SESSION_H
