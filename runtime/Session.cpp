#include "runtime/Session.h"

#include "runtime/Diagnose.h"
#include "runtime/NodeParts.h"
#include "runtime/PlanAccess.h"
#include "runtime/Recompile.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/base/Finite.h"
#include "runtime/base/HostCpu.h"
#include "runtime/base/Topology.h"
#include "runtime/device/cpu/ThreadCount.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace moert {

StatusOr<std::unique_ptr<Session>>
Session::withFiles(Plan plan, const SessionOptions &options) {
  MOE_RETURN_IF_ERROR(plan.checkMachine(options.files.models));
  std::unique_ptr<Session> session(new Session(std::move(plan)));
  MOE_ASSIGN_OR_RETURN(session->files_,
                       WeightFiles::open(session->plan_, options.files));
  return session;
}

StatusOr<std::unique_ptr<Session>>
Session::open(const std::string &planPath, const SessionOptions &options) {
  std::unique_ptr<Session> session;
  MOE_RETURN_IF_ERROR(openWithPlan(planPath, [&](Plan plan) -> Status {
    MOE_ASSIGN_OR_RETURN(session, withFiles(std::move(plan), options));
    return Status::ok();
  }));
  MOE_RETURN_IF_ERROR(session->prepare(options));
  return session;
}

StatusOr<std::unique_ptr<Session>>
Session::create(Plan plan, const SessionOptions &options) {
  MOE_ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                       withFiles(std::move(plan), options));
  MOE_RETURN_IF_ERROR(session->prepare(options));
  return session;
}

Status Session::prepare(const SessionOptions &options) {
  const fb::Plan &table = plan_.table();
  hiddenSize_ = table.hidden();
  vocab_ = static_cast<int32_t>(table.vocab());
  context_ = table.context();
  modelPaths_ = options.files.models;
  MOE_ASSIGN_OR_RETURN(int threads,
                       resolveThreads(options.threads, readCpuBudget()));
  memory_ = memoryFit(plan_, threads, options.copyWeights,
                      hostMemoryLimit(options.systemRoot));
  MOE_RETURN_IF_ERROR(checkFit(plan_, memory_, options.allowPaging));
  // Only a worker that stays where it is has memory of its own.
  DevicesOptions devices;
  devices.threads = threads;
  devices.instrument = options.instrument;
  if (options.pin)
    for (WorkerPlace place : placeWorkers(
             readTopology(allowedCpus(), options.systemRoot), threads)) {
      devices.cpus.push_back(place.cpu);
      devices.nodes.push_back(place.node);
    }
  if (options.copyWeights)
    MOE_RETURN_IF_ERROR(files_->copyToMemory(nodeParts(table, devices.nodes)));
  return createDevices(std::move(devices));
}

std::string Session::recompiled(std::string_view option,
                                std::string value) const {
  OptionChange change{option, std::move(value)};
  return recompileLine(plan_.table(), plan_.path(), {&change, 1}, modelPaths_);
}

std::string Session::contextHint(int64_t tokens) const {
  return moert::contextHint(plan_.table(), plan_.path(), tokens, modelPaths_);
}

Status Session::createDevices(DevicesOptions options) {
  StatusOr<std::unique_ptr<Devices>> created =
      Devices::create(plan_, *files_, std::move(options));
  if (!created && created.status().code() == StatusCode::WrongMachine)
    return Status(StatusCode::WrongMachine,
                  created.status().message() + "; recompile for this machine" +
                      recompiled("--target", "native"));
  MOE_ASSIGN_OR_RETURN(devices_, std::move(created));
  for (const RunnablePhase &phase : devices_->phases())
    if (phase.name == "decode")
      decode_ = phase;
    else if (phase.name == "prefill")
      prefill_ = phase;
    else
      logits_ = phase;
  return Status::ok();
}

int32_t Session::ubatch() const {
  return prefill_ ? prefill_->maxTokens : decode_.maxTokens;
}

Status Session::rewind(int32_t position) {
  if (position < 0 || position > position_)
    return Status(StatusCode::Usage,
                  fmt::format("cannot rewind to position {}: {} are in the "
                              "cache",
                              position, counted(position_, "token")));
  position_ = position;
  return Status::ok();
}

Status Session::checkTokens(std::span<const int32_t> tokens) const {
  if (tokens.empty())
    return Status(StatusCode::Usage, "there are no tokens to process");
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0 || tokens[i] >= vocab_)
      return Status(StatusCode::Usage,
                    fmt::format("token {} at index {} is outside the "
                                "vocabulary of {}",
                                tokens[i], i, vocab_));
  if (tokens.size() > size_t(context_ - position_)) {
    size_t needed = size_t(position_) + tokens.size();
    return Status(StatusCode::DoesNotFit,
                  fmt::format("{} at position {} do not fit the context of {}"
                              "{}",
                              counted(tokens.size(), "token"), position_,
                              context_, contextHint(int64_t(needed))));
  }
  return Status::ok();
}

const RunnablePhase &Session::phaseFor(size_t remaining) const {
  bool fitsDecode = remaining <= size_t(decode_.maxTokens);
  bool fitsPrefill = prefill_ && remaining >= size_t(prefill_->minTokens);
  return fitsDecode || !fitsPrefill ? decode_ : *prefill_;
}

Status Session::runPhase(const RunnablePhase &phase, const moek::Step &step) {
  if (!observer_)
    return devices_->run(phase, step, cancel_);
  times_.assign(phase.instructions, {});
  auto start = std::chrono::steady_clock::now();
  MOE_RETURN_IF_ERROR(devices_->run(phase, step, cancel_, times_));
  std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - start;
  observer_({phase.name, step, seconds.count(), times_});
  return Status::ok();
}

StatusOr<size_t> Session::step(const RunnablePhase &phase,
                               std::span<const int32_t> tokens) {
  size_t taken = std::min(tokens.size(), size_t(phase.maxTokens));
  const moek::Step step{static_cast<int32_t>(taken), position_};
  std::memcpy(phase.input, tokens.data(), taken * sizeof(int32_t));
  MOE_RETURN_IF_ERROR(runPhase(phase, step));
  // Of all tokens: the logits of the last need not show what another met.
  if (!allFinite({phase.output, taken * size_t(hiddenSize_)})) {
    std::memcpy(phase.input, tokens.data(), taken * sizeof(int32_t));
    return diagnose(plan_, *files_, *devices_, phase, step, cancel_);
  }
  position_ += static_cast<int32_t>(taken);
  return taken;
}

StatusOr<std::span<const float>> Session::head(const float *hidden,
                                               size_t rows) {
  const moek::Step step{static_cast<int32_t>(rows), 0};
  size_t bytes = rows * size_t(hiddenSize_) * sizeof(float);
  std::memcpy(logits_.input, hidden, bytes);
  MOE_RETURN_IF_ERROR(runPhase(logits_, step));
  std::span<const float> logits(logits_.output, rows * size_t(vocab_));
  if (allFinite(logits))
    return logits;
  std::memcpy(logits_.input, hidden, bytes);
  return diagnose(plan_, *files_, *devices_, logits_, step, cancel_);
}

StatusOr<std::span<const float>>
Session::prefill(std::span<const int32_t> tokens) {
  MOE_RETURN_IF_ERROR(checkTokens(tokens));
  for (;;) {
    const RunnablePhase &phase = phaseFor(tokens.size());
    MOE_ASSIGN_OR_RETURN(size_t taken, step(phase, tokens));
    tokens = tokens.subspan(taken);
    if (!tokens.empty())
      continue;
    const float *last = phase.output + (taken - 1) * size_t(hiddenSize_);
    hidden_.assign(last, last + hiddenSize_);
    return head(hidden_.data(), 1);
  }
}

StatusOr<std::span<const float>> Session::decode(int32_t token) {
  return prefill({&token, 1}); // The decode phase takes one token: phaseFor().
}

Status Session::prefillAll(std::span<const int32_t> tokens,
                           const LogitsSink &sink) {
  MOE_RETURN_IF_ERROR(checkTokens(tokens));
  size_t row = size_t(hiddenSize_), done = 0;
  while (done < tokens.size()) {
    const RunnablePhase &phase = phaseFor(tokens.size() - done);
    MOE_ASSIGN_OR_RETURN(size_t taken, step(phase, tokens.subspan(done)));
    // The head overwrites the arena, so all rows leave it first.
    hidden_.assign(phase.output, phase.output + taken * row);
    for (size_t first = 0; first < taken;) {
      size_t rows = std::min(taken - first, size_t(logits_.maxTokens));
      MOE_ASSIGN_OR_RETURN(std::span<const float> logits,
                           head(hidden_.data() + first * row, rows));
      MOE_RETURN_IF_ERROR(sink(done + first, rows, logits));
      first += rows;
    }
    done += taken;
  }
  return Status::ok();
}

} // namespace moert
