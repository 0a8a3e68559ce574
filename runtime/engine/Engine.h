//===- Engine.h - A plan that is ready to run -------------------*- C++ -*-===//
//
// An engine holds a plan, its weights, the worker threads and the KV cache that
// all sequences share. One step carries tokens of any number of sequences: one
// token of each sequence that is generating, in the decode or batch phase, and
// the next tokens of prompts, as many as fit the prefill phase.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_ENGINE_ENGINE_H
#define MOE_RUNTIME_ENGINE_ENGINE_H

#include "runtime/cache/KvPages.h"
#include "runtime/cache/KvPool.h"
#include "runtime/cache/StatePool.h"
#include "runtime/device/Devices.h"
#include "runtime/engine/HeadNorm.h"
#include "runtime/engine/MakeDevices.h"
#include "runtime/engine/MemoryFit.h"
#include "runtime/engine/NodeUse.h"
#include "runtime/engine/RungChoice.h"
#include "runtime/engine/Sequence.h"
#include "runtime/plan/OutputRule.h"
#include "runtime/plan/Plan.h"
#include "runtime/plan/WeightFiles.h"
#include "runtime/schema/OpTable.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moert {

struct EngineOptions {
  /// Maximum number of workers; 0: the CPUs that this process may use. Steps
  /// run with as many as are fastest, which is found meanwhile (TeamPolicy.h);
  /// if the plan has several devices, with one per physical core.
  int threads = 0;
  /// Pin workers to CPUs, one per physical core before any hyper-thread
  /// sibling, spread over memory nodes; each node then reads its own part of
  /// the weights. The calling thread is pinned only while it works.
  bool pin = false;
  /// Root of the system files that describe the machine; tests use another one.
  std::string systemRoot = "/sys";
  /// Copy weights into private memory instead of mapping their files. If
  /// workers are pinned, the part that each memory node reads is copied to that
  /// node.
  bool copyWeights = false;
  /// Use memory nodes as the plan says (NodeUse.h), which may pin workers and
  /// copy weights. Weights that do not fit in memory as a copy are mapped.
  bool planNodes = true;
  /// Run although the mapped weights exceed memory: some of their pages are
  /// then read from the disk for every token (MemoryFit.h). Weights that would
  /// be laid out while they load are then mapped, too (MappedPlan.h).
  bool allowPaging = false;
  /// The rung to run if the plan is a ladder (RungChoice.h).
  RungRequest rung = {};
  /// Present places of the files, if they were moved since the plan was
  /// compiled.
  WeightPaths files = {};
  /// How GPUs and other devices wait for each other, and who hears of it.
  CudaOptions cuda = {};
  /// Receives the progress of loading weights to GPUs; may be null.
  LoadProgress loading = {};
  /// Creates the plan's devices; tests substitute their own.
  std::function<StatusOr<DeviceList>(const Plan &, const WeightFiles &,
                                     DeviceOptions)>
      makeDevices = moert::makeDevices;
};

/// Duration of one run of a phase.
struct PhaseRun {
  PhaseKind phase;
  moek::Step step; ///< `position` is that of the first sequence.
  double seconds;  ///< Duration with the time in which workers wake up.
  /// One entry per instruction of the phase, in the plan's order.
  std::span<const InstructionTime> instructions;
};

/// Receives the hidden state of the token at `position`: the last sum of the
/// residual stream after the output norm, [Engine::hidden()], which logits are
/// computed from. It is valid during the call.
using HiddenSink =
    std::function<void(int32_t position, std::span<const float> state)>;

/// Tokens to append to a sequence and the logits wanted after them.
struct Request {
  enum class Logits { None, Last, All };

  Sequence *sequence = nullptr;
  /// Tokens still to append; each step removes some from the front.
  std::span<const int32_t> tokens;
  Logits logits = Logits::Last; ///< The tokens whose logits are wanted.
  /// Most tokens of a prompt to evaluate in a step. A request with one token
  /// left ignores it.
  int32_t most = std::numeric_limits<int32_t>::max();
  /// Evaluate all of `tokens`, at most Engine::batch(), in one run of the batch
  /// phase like tokens of as many sequences, and give the logits after each. So
  /// tokens that are only guessed can be checked. A sequence with a state does
  /// not return to an earlier position for free (Sequence::rewind()).
  bool together = false;
  /// If it is set, it receives the hidden state of every token but the last
  /// one, in order, and no logits are computed. A request ends when only that
  /// token is left, which it must have because phases that give hidden states
  /// take two tokens at least. Tokens are evaluated although other sequences
  /// hold the same ones, and `most` counts as 2 at least.
  HiddenSink hidden = {};
  /// An error ends the request; tokens appended before it stay in the sequence.
  Status status = {};

  bool isOpen() const { return status.isOk() && !tokens.empty(); }
};

/// An engine and its sequences must be used from one thread at a time.
class Engine {
public:
  /// Opens a plan and all that it needs. Returns the errors of Plan::load,
  /// takeRung, Plan::checkMachine, WeightFiles::open and checkFit, and
  /// InvalidFile where operands do not match their instruction. If the plan is
  /// recompiled meanwhile, opening is tried again (openWithPlan).
  static StatusOr<std::unique_ptr<Engine>>
  open(const std::string &planPath, const EngineOptions &options = {});
  static StatusOr<std::unique_ptr<Engine>>
  create(Plan plan, const EngineOptions &options = {});

  const Plan &plan() const { return plan_; }
  /// RungChoice::why; "" if the plan is not a ladder.
  const std::string &rungNote() const { return rungNote_; }
  /// Says how memory nodes are used; "" if the plan does not specify it.
  const std::string &nodeNote() const { return nodeNote_; }
  /// Says that weights are read from the mapped model instead of being laid
  /// out; "" if they are as the plan says.
  const std::string &mappingNote() const { return mappingNote_; }
  int32_t vocab() const { return vocab_; }
  /// Number of logits after a token: vocab(), or the outputs of the model's
  /// classifier.
  size_t logitsSize() const { return logitsSize_; }
  /// Fails with Unsupported if logits are those of a classifier, from which no
  /// token can be chosen.
  Status mayGenerate() const;
  /// Number of elements of a hidden state.
  int32_t hidden() const { return int32_t(hiddenSize_); }
  /// Maximum number of tokens in a sequence.
  int32_t context() const { return context_; }
  int32_t threads() const { return devices_->threads(); }
  /// Number of worker threads that ran the last step, which may be fewer
  /// (TeamPolicy.h).
  int32_t team() const { return devices_->team(); }
  /// Number of worker threads of one device.
  int32_t threadsOf(uint32_t device) const {
    return devices_->device(device).threads();
  }
  /// Returns what Device::hardware() returns.
  std::string hardwareOf(uint32_t device) const {
    return devices_->device(device).hardware();
  }
  /// Maximum number of prompt tokens in a step.
  int32_t ubatch() const;
  /// Maximum number of sequences that one run of a phase can extend by a token.
  int32_t batch() const {
    return batch_ ? std::min(batch_->maxTokens, kMaxSequences) : 1;
  }

  /// Returns an empty sequence.
  Sequence sequence(SequenceOptions options = {});

  /// Reads a file that Sequence::save() wrote with this plan. Fails with Io,
  /// InvalidFile (the file is damaged or of another kind), WrongMachine (it was
  /// saved with another plan) or DoesNotFit.
  StatusOr<Sequence> restore(const std::string &path,
                             SequenceOptions options = {});
  /// The two halves of restore(): reading and checking the file, which takes as
  /// long as it is large and which any thread may do, and copying it.
  StatusOr<SavedSequence> readSaved(const std::string &path) const;
  StatusOr<Sequence> restore(const SavedSequence &saved,
                             SequenceOptions options = {});
  /// Returns the tokens of such a file, without reading or checking the rest.
  /// Fails as restore() does.
  StatusOr<std::vector<int32_t>> savedTokens(const std::string &path) const;

  /// Receives the logits [vocab] after the token at `position` of a request's
  /// sequence. They are valid during the call.
  using LogitsSink = std::function<Status(size_t request, int32_t position,
                                          std::span<const float> logits)>;
  /// Advances all open requests, each of which must be of a different sequence.
  /// A request with one token left, or with `together`, gets its tokens
  /// appended; the other requests, in order, share up to ubatch() tokens. An
  /// error of one sequence is stored in its request: Usage for an id outside
  /// the vocabulary, DoesNotFit when the context would be exceeded or no page
  /// of the cache is free, Unsupported if hidden states are wanted of a plan
  /// that has no prefill phase or does not begin its head with an RMS norm,
  /// Cancelled, InvalidFile where a token's hidden state or a logit is not
  /// finite (the message names the tensor or the op). Returns errors that
  /// concern all requests: those of `sink` and of the machine.
  Status step(std::span<Request> requests, const LogitsSink &sink);

  /// Appends to the sequence as many of the first of `tokens` as other
  /// sequences have computed, but not the last of them, and returns their
  /// number. Steps do the same; this tells which tokens they need not evaluate.
  int32_t takePrefix(Sequence &sequence, std::span<const int32_t> tokens);

  /// Appends `tokens`, at least one, to one sequence and returns the logits
  /// after the last token: [vocab], valid until the next call of the engine.
  StatusOr<std::span<const float>> append(Sequence &sequence,
                                          std::span<const int32_t> tokens);
  StatusOr<std::span<const float>> append(Sequence &sequence, int32_t token) {
    return append(sequence, {&token, 1});
  }

  /// Does the same and passes the logits after every token, in order, to
  /// `sink`.
  Status appendAll(Sequence &sequence, std::span<const int32_t> tokens,
                   const LogitsSink &sink);

  /// Whether the plan has the layer for multi-token prediction (MTP), which
  /// draft() runs.
  bool drafts() const { return draft_.has_value(); }
  /// Runs that layer for `tokens`, those of a sequence from `position` + 1 on,
  /// the last of which need not be appended yet. `hidden` has a row for each:
  /// the hidden state (HiddenSink) of the token before it. Their rows go into
  /// the cache of that layer, which must have all rows before `position`.
  /// `sink` receives for each token the logits of the one after it, and its
  /// position; the request is 0. Fails with Unsupported if the plan has no such
  /// layer, and with Usage for a sequence that shares prefixes (a cached row of
  /// the layer depends on the next token), for positions that the sequence does
  /// not have, and for ids outside the vocabulary.
  Status draft(Sequence &sequence, int32_t position,
               std::span<const int32_t> tokens, std::span<const float> hidden,
               const LogitsSink &sink);

  /// Adds to `failure`, about a context that does not hold `tokens`, what to
  /// do: use a rung of this plan, another plan, or a shorter text.
  Status adviseContext(Status failure, int64_t tokens) const;

  /// Paths of the files that weights are read from.
  std::vector<std::string> weightPaths() const { return files_->paths(); }
  /// Returns the rule for output files of this process: they may not replace
  /// the plan or a file that one of its rungs needs.
  OutputRule outputRule(bool force = false,
                        std::string forceWord = "--force") const;
  /// Memory that the engine needs, compared with this machine's limit.
  const MemoryFit &fit() const { return memory_; }
  /// Number of pages in the KV cache.
  int32_t pages() const { return pool_->pages(); }
  /// Number of those pages that no sequence holds.
  int32_t freePages() const { return pool_->available(); }
  /// Number of sequences and checkpoints whose states have room; 0 if no layer
  /// keeps a state.
  int32_t stateSlots() const { return states_ ? states_->slots() : 0; }

  /// Number of weight pages touched so far, and how the files are mapped.
  MappedFile::PageUse weightPages() const { return files_->pageUse(); }

  /// Sets a function that is called after each run of a phase; null removes it.
  /// Returns the one that was set before. Timing costs about 50 ns per
  /// instruction, and more on a GPU, which then runs them one after another.
  using StepObserver = std::function<void(const PhaseRun &)>;
  StepObserver setObserver(StepObserver observer) {
    return std::exchange(observer_, std::move(observer));
  }

private:
  friend class Sequence;
  explicit Engine(Plan plan) : plan_(std::move(plan)) {}

  /// Tokens of one request that take part in one run of a phase.
  struct Part {
    size_t request;
    int32_t count;
  };
  /// A token whose logits are wanted: one row of `hidden_`.
  struct Wanted {
    size_t request;
    int32_t position;
  };

  /// Runs the decode or batch phase for parts that together may have any number
  /// of rows, each at most batch().
  Status runGenerating(std::span<Request> requests, std::span<const Part> parts,
                       const LogitsSink &sink);

  static StatusOr<std::unique_ptr<Engine>>
  openFiles(Plan plan, const EngineOptions &options);
  /// Does the rest of opening once the files are open; errors name the rung.
  Status ready(const EngineOptions &options);
  Status prepare(const EngineOptions &options);
  /// Lays out and copies weights in memory, as the plan and `use` say. `parts`
  /// as in WeightFiles::copyToMemory().
  Status loadWeights(const NodeUse &use,
                     std::span<const std::vector<NodeBytes>> parts,
                     const LoadProgress &progress);
  Status createDevices(const EngineOptions &options, DeviceOptions ofDevices);

  Status check(const Request &request) const;
  Status checkTokens(std::span<const int32_t> tokens) const;
  Status checkDraft(const Sequence &sequence, int32_t position,
                    std::span<const int32_t> tokens,
                    std::span<const float> hidden) const;
  Status givesHidden() const;
  /// Restores the state of a sequence that has none: takes the last checkpoint
  /// among its pages and evaluates the tokens after it again. An error of the
  /// sequence is stored in the request, and its tokens stay.
  Status restoreState(Request &request);
  /// Limits `count`, the prompt tokens for a step, so that the step ends where
  /// a checkpoint is to be stored.
  int32_t limitToCheckpoint(const Request &request, int32_t count) const;
  /// Stores the sequence's state as a checkpoint after a step that appended
  /// `count` of its tokens, if the step ended at the last page boundary of its
  /// prompt or, with StatePool::holdsWholePages(), at the end of its prompt.
  Status saveCheckpoint(const Request &request, int32_t count);
  /// Gives the sequence pages for `count` more tokens, which it may write to.
  Status reserve(Sequence &sequence, int32_t count);
  Status makeWritable(int32_t &page);
  Status poolIsFull() const;
  Status statesAreFull() const;
  /// Checks the contents of a file from save().
  Status checkSaved(std::span<const uint8_t> bytes) const;
  /// Fills an empty sequence with contents that were checked.
  Status load(std::span<const uint8_t> bytes, Sequence &sequence);
  /// Adds the sequence's full pages to the index of the pool.
  void publish(Sequence &sequence);

  Status runTokenBatch(const RunnablePhase &phase, std::span<Request> requests,
                       std::vector<Part> parts, const LogitsSink &sink);
  /// Copies the rows of a phase's `output` whose logits are wanted to hidden_,
  /// as the logits phase overwrites `output`. Returns the requests with a row
  /// that is not finite; their rows are left out.
  std::vector<size_t> gather(std::span<const float> output,
                             std::span<const Request> requests,
                             std::span<const Part> parts,
                             std::vector<Wanted> &wanted);
  /// The first `count` tokens of the request are now in the cache.
  void advance(Request &request, int32_t count);
  /// Runs a phase on `input` and returns its output (Devices::output()).
  StatusOr<std::span<const float>> runPhase(const RunnablePhase &phase,
                                            std::span<const std::byte> input,
                                            const moek::Step &step,
                                            const std::atomic<bool> *cancel);
  /// Computes the logits of the rows of hidden_ and passes them to `sink`.
  Status head(std::span<Request> requests, std::span<const Wanted> wanted,
              const LogitsSink &sink);

  Plan plan_;
  std::string rungNote_, nodeNote_, mappingNote_;
  MemoryFit memory_;
  /// Paths as given by the user, for messages.
  std::vector<std::string> modelPaths_;
  std::optional<WeightFiles> files_;
  std::unique_ptr<Devices> devices_;
  KvPages kvPages_;
  std::optional<KvPool> pool_;
  std::optional<StatePool> states_; ///< Present if some layers have states.
  RunnablePhase decode_, logits_;
  std::optional<RunnablePhase> prefill_, streamed_, batch_;
  std::optional<RunnablePhase> draft_, draftLogits_;
  std::vector<moek::SequenceRows> rows_; ///< Sequences of the running step.
  std::vector<float> hidden_; ///< Rows between a phase and the logits phase.
  std::optional<HeadNorm> headNorm_; ///< Absent if the plan has another head.
  int64_t hiddenSize_ = 0;
  int32_t vocab_ = 0, context_ = 0;
  size_t logitsSize_ = 0;
  StepObserver observer_;
  /// Times of the running step, if it is observed.
  std::vector<InstructionTime> times_;
};

} // namespace moert

#endif // MOE_RUNTIME_ENGINE_ENGINE_H
