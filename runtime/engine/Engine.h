//===- Engine.h - A plan that is ready to run -------------------*- C++ -*-===//
//
// Plan, weights and workers, and the cache that all sequences share. A step
// carries rows of any number of sequences: one row of each that generates, in
// the phase that is made for it, and the next tokens of prompts, as many as fit
// the prefill phase.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_ENGINE_ENGINE_H
#define MOE_RUNTIME_ENGINE_ENGINE_H

#include "runtime/cache/KvPages.h"
#include "runtime/cache/KvPool.h"
#include "runtime/cache/StatePool.h"
#include "runtime/device/Devices.h"
#include "runtime/engine/Ladder.h"
#include "runtime/engine/MakeDevices.h"
#include "runtime/engine/MemoryFit.h"
#include "runtime/engine/Sequence.h"
#include "runtime/plan/OutputRule.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/WeightFiles.h"
#include "runtime/schema/OpTable.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

struct EngineOptions {
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
  /// Use memory nodes as the plan has it (NodeUse.h), which may pin workers and
  /// copy weights; what does not fit as a copy is mapped.
  bool planNodes = true;
  /// Run although mapped weights are more than memory holds: pages of them are
  /// then read from the disk for every token (MemoryFit.h).
  bool allowPaging = false;
  /// Which rung of a ladder (Ladder.h).
  RungWish rung = {};
  /// Where files are now, if not where they were at compile time.
  WeightPaths files = {};
  /// Told how weights come to devices with memory of their own; may be null.
  LoadProgress loading = {};
  /// What makes the plan's devices; tests make others.
  std::function<StatusOr<DeviceList>(const Plan &, const WeightFiles &,
                                     DeviceOptions)>
      makeDevices = moert::makeDevices;
};

/// What one run of a phase took.
struct StepTimes {
  std::string_view phase;
  moek::Step step; ///< Its position is the first sequence's.
  double seconds;  ///< All of it, waking the workers included.
  /// In the order of the phase's instructions in the plan.
  std::span<const InstructionTime> instructions;
};

/// What a sequence wants of steps.
struct Request {
  enum class Logits { None, Last, All };

  Sequence *sequence = nullptr;
  /// To append; each step takes some from the front.
  std::span<const int32_t> tokens;
  Logits logits = Logits::Last; ///< After which of them.
  /// Why it goes no further; what was appended stays.
  Status status = {};

  bool isOpen() const { return status.isOk() && !tokens.empty(); }
};

/// Use it and its sequences from one thread at a time.
class Engine {
public:
  /// Fails as Plan::load, takeRung, Plan::checkMachine, WeightFiles::open and
  /// checkFit do, and where instructions do not match their operands
  /// (InvalidFile). As openWithPlan: a recompilation meanwhile does no harm.
  static StatusOr<std::unique_ptr<Engine>>
  open(const std::string &planPath, const EngineOptions &options = {});
  static StatusOr<std::unique_ptr<Engine>>
  create(Plan plan, const EngineOptions &options = {});

  const Plan &plan() const { return plan_; }
  /// RungChoice::why, "" of a plan that is no ladder.
  const std::string &rungNote() const { return rungNote_; }
  /// What it does with memory nodes; "" where the plan does not say.
  const std::string &nodeNote() const { return nodeNote_; }
  int32_t vocab() const { return vocab_; }
  /// Tokens that a sequence holds at most.
  int32_t context() const { return context_; }
  int32_t threads() const { return devices_->threads(); }
  /// Those of one device.
  int32_t threadsOf(uint32_t device) const {
    return devices_->device(device).threads();
  }
  /// Most tokens of prompts in a step.
  int32_t ubatch() const;
  /// Most sequences that generate a token in one run of a phase.
  int32_t batch() const {
    return batch_ ? std::min(batch_->maxTokens, kMaxSequences) : 1;
  }

  /// An empty one.
  Sequence sequence(SequenceOptions options = {});

  /// What Sequence::save() wrote, with this plan. Fails with Io, InvalidFile (a
  /// damaged or foreign file), WrongMachine (saved with another plan),
  /// DoesNotFit.
  StatusOr<Sequence> restore(const std::string &path,
                             SequenceOptions options = {});

  /// Receives logits [vocab] after the token at `position` of a request's
  /// sequence; valid during the call.
  using LogitsSink = std::function<Status(size_t request, int32_t position,
                                          std::span<const float> logits)>;
  /// Brings open requests, each of another sequence, forward: appends one token
  /// of those that have one left, and up to ubatch() tokens of the others, in
  /// their order. What fails for one sequence is in its request: Usage for an
  /// id outside the vocabulary, DoesNotFit when its context would be exceeded
  /// or no page of the cache is free, Cancelled, InvalidFile where a token's
  /// hidden state or a logit is not finite (the message names tensor or op).
  /// Returns what fails for all: the sink's, and failures of the machine.
  Status step(std::span<Request> requests, const LogitsSink &sink);

  /// Appends `tokens`, at least one, to one sequence and returns the logits
  /// after the last: [vocab], valid until the engine's next call.
  StatusOr<std::span<const float>> append(Sequence &sequence,
                                          std::span<const int32_t> tokens);
  StatusOr<std::span<const float>> append(Sequence &sequence, int32_t token) {
    return append(sequence, {&token, 1});
  }

  /// Likewise with the logits after every token, in order.
  Status appendAll(Sequence &sequence, std::span<const int32_t> tokens,
                   const LogitsSink &sink);

  /// `failure`, about a context that does not hold `tokens`, with what to do:
  /// a rung of this plan, another plan, or a shorter text.
  Status adviseContext(Status failure, int64_t tokens) const;

  /// The files that weights are read from.
  std::vector<std::string> weightPaths() const { return files_->paths(); }
  /// What outputs of this process may replace: not the plan, nor a file that
  /// any of its rungs needs.
  OutputRule outputRule(bool force = false,
                        std::string forceWord = "--force") const;
  /// What it takes of the machine's memory.
  const MemoryFit &fit() const { return memory_; }
  /// Pages of the cache: all, and those that no sequence holds.
  int32_t pages() const { return pool_->pages(); }
  int32_t freePages() const { return pool_->available(); }

  /// How much of the weights was touched so far, and how they are mapped.
  MappedFile::PageUse weightPages() const { return files_->pageUse(); }

  /// Called after each run of a phase from now on; null for none. Timing costs
  /// some 50 ns an instruction.
  using StepObserver = std::function<void(const StepTimes &)>;
  void setObserver(StepObserver observer) { observer_ = std::move(observer); }

private:
  friend class Sequence;
  explicit Engine(Plan plan) : plan_(std::move(plan)) {}

  /// The rows of a request in one run of a phase.
  struct Part {
    size_t request;
    int32_t count;
  };
  /// A row of `hidden_`, whose logits are wanted.
  struct Wanted {
    size_t request;
    int32_t position;
  };

  static StatusOr<std::unique_ptr<Engine>>
  withFiles(Plan plan, const EngineOptions &options);
  /// All that remains when the files are open; the failure names the rung.
  Status ready(const EngineOptions &options);
  Status prepare(const EngineOptions &options);
  Status createDevices(const EngineOptions &options, DeviceOptions ofDevices);

  Status check(const Request &request) const;
  /// Takes what other sequences computed of the request's tokens.
  void takePrefix(Request &request);
  /// Makes the state after the sequence's tokens where it has none: from the
  /// last checkpoint among its pages, by evaluating again what is behind that.
  /// What fails for the sequence is in the request; its tokens stay.
  Status catchUp(Request &request);
  /// Rows of a prompt that a step takes of `count`: it stops where a checkpoint
  /// is to be.
  int32_t upToCheckpoint(const Request &request, int32_t count) const;
  /// Keeps the sequence's state, after a step with `count` of its rows, if its
  /// prompt goes on from a checkpoint, or ends behind one.
  Status keepState(const Request &request, int32_t count);
  /// Gives the sequence pages to write `count` more rows to.
  Status reserve(Sequence &sequence, int32_t count);
  Status makeWritable(int32_t &page);
  Status poolIsFull() const;
  Status statesAreFull() const;
  /// Fills an empty sequence with what save() wrote.
  Status load(std::span<const uint8_t> bytes, Sequence &sequence);
  /// Enters the sequence's full pages in the pool's index.
  void publish(Sequence &sequence);

  Status runRows(const RunnablePhase &phase, std::span<Request> requests,
                 std::vector<Part> parts, const LogitsSink &sink);
  /// Copies the rows whose logits are wanted from a phase's `output`, which the
  /// head overwrites, to hidden_. Returns the requests of which some row is not
  /// finite; none of their rows are wanted.
  std::vector<size_t> gather(std::span<const float> output,
                             std::span<const Request> requests,
                             std::span<const Part> parts,
                             std::vector<Wanted> &wanted);
  /// The first `count` tokens of the request are now in the cache.
  void advance(Request &request, int32_t count);
  /// The output of a step whose rows are `input`: Devices::output().
  StatusOr<std::span<const float>> runPhase(const RunnablePhase &phase,
                                            std::span<const std::byte> input,
                                            const moek::Step &step,
                                            const std::atomic<bool> *cancel);
  /// The logits of hidden_'s rows.
  Status head(std::span<Request> requests, std::span<const Wanted> wanted,
              const LogitsSink &sink);

  Plan plan_;
  std::string rungNote_, nodeNote_;
  MemoryFit memory_;
  std::vector<std::string> modelPaths_; ///< The user's, for messages.
  std::optional<WeightFiles> files_;
  std::unique_ptr<Devices> devices_;
  KvPages kvPages_;
  std::optional<KvPool> pool_;
  std::optional<StatePool> states_; ///< Where layers have states.
  RunnablePhase decode_, logits_;
  std::optional<RunnablePhase> prefill_, streamed_, batch_;
  std::vector<moek::SequenceRows> rows_; ///< Of the running step.
  std::vector<float> hidden_;            ///< Rows between a phase and the head.
  int64_t hiddenSize_ = 0;
  int32_t vocab_ = 0, context_ = 0;
  StepObserver observer_;
  std::vector<InstructionTime> times_; ///< Of the running step, if observed.
};

} // namespace moert

#endif // MOE_RUNTIME_ENGINE_ENGINE_H
