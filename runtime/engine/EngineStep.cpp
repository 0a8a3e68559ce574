// Steps: choose the tokens that run together, and update each sequence.
#include "runtime/base/Finite.h"
#include "runtime/engine/Diagnose.h"
#include "runtime/engine/Engine.h"
#include "runtime/plan/PlanAccess.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <utility>

namespace moert {

using moek::kKvPage;

Status Engine::givesHidden() const {
  auto refuse = [&](std::string_view reason) {
    return Status(StatusCode::Unsupported,
                  fmt::format("this plan gives no hidden states: {}", reason));
  };
  if (decode_.endsWithLogits && (!prefill_ || prefill_->minTokens > 2))
    return refuse("it has no prefill phase for two tokens; compile it with a "
                  "--ubatch above 1");
  if (!headNorm_)
    return refuse("its head does not begin with an RMS norm");
  return Status::ok();
}

Status Engine::checkTokens(std::span<const int32_t> tokens) const {
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0 || tokens[i] >= vocab_)
      return Status(StatusCode::Usage,
                    fmt::format("token {} at index {} is outside the "
                                "vocabulary of {}",
                                tokens[i], i, vocab_));
  return Status::ok();
}

Status Engine::check(const Request &request) const {
  const Sequence &sequence = *request.sequence;
  std::span<const int32_t> tokens = request.tokens;
  if (sequence.engine_ != this)
    return Status(StatusCode::Usage, "the sequence belongs to another engine");
  if (request.hidden)
    MOE_RETURN_IF_ERROR(givesHidden());
  if (request.together && tokens.size() > size_t(batch()))
    return Status(StatusCode::Usage,
                  fmt::format("{} are to be evaluated together; the plan's "
                              "limit is {}",
                              counted(tokens.size(), "token"), batch()));
  MOE_RETURN_IF_ERROR(checkTokens(tokens));
  if (tokens.size() > size_t(context_ - sequence.position())) {
    const bool isLimited = context_ < plan_.table().context();
    size_t needed = size_t(sequence.position()) + tokens.size();
    Status failure(
        StatusCode::DoesNotFit,
        fmt::format("{} at position {} do not fit the context of {}{}",
                    counted(tokens.size(), "token"), sequence.position(),
                    context_, isLimited ? ", which --ctx limits" : ""));
    return needed <= size_t(plan_.table().context())
               ? failure
               : adviseContext(std::move(failure), int64_t(needed));
  }
  return sequence.isCancelled() ? Status(StatusCode::Cancelled, "interrupted")
                                : Status::ok();
}

int32_t Engine::takePrefix(Sequence &sequence,
                           std::span<const int32_t> tokens) {
  if (!sequence.options_.sharePrefixes ||
      sequence.tokens_.size() != sequence.published_ * kKvPage)
    return 0;
  std::vector<int32_t> found;
  // Number of pages that were found, up to the last checkpoint.
  size_t usable = 0;
  int32_t last = sequence.pages_.empty() ? KvPool::root(sequence.options_.group)
                                         : sequence.pages_.back();
  // The last token is always computed, because its logits are wanted.
  for (std::span<const int32_t> rest = tokens; rest.size() > size_t(kKvPage);
       rest = rest.subspan(kKvPage)) {
    last = pool_->find(last, rest.first(kKvPage));
    if (last == KvPool::kNone)
      break;
    found.push_back(last);
    if (!states_ || states_->hasCheckpoint(last))
      usable = found.size();
  }
  for (; found.size() > usable; found.pop_back())
    pool_->release(found.back());
  if (found.empty())
    return 0;
  if (states_) {
    int32_t state = states_->take(found.back());
    if (state == StatePool::kNone) {
      for (; !found.empty(); found.pop_back())
        pool_->release(found.back());
      return 0;
    }
    sequence.dropState();
    sequence.state_ = state;
  }
  tokens = tokens.first(found.size() * kKvPage);
  sequence.pages_.insert(sequence.pages_.end(), found.begin(), found.end());
  sequence.tokens_.insert(sequence.tokens_.end(), tokens.begin(), tokens.end());
  sequence.published_ += found.size();
  return int32_t(tokens.size());
}

Status Engine::poolIsFull() const {
  return Status(StatusCode::DoesNotFit,
                fmt::format("the cache of {} tokens is full: other sequences "
                            "hold its pages; end or rewind one of them, or "
                            "compile for more with --sequences",
                            int64_t(pool_->pages()) * kKvPage));
}

Status Engine::makeWritable(int32_t &page) {
  bool shared = pool_->isShared(page);
  if (!shared && !pool_->isPublished(page)) {
    pool_->touch(page);
    return Status::ok();
  }
  std::optional<int32_t> own = pool_->allocate();
  if (own) {
    Status copied = kvPages_.copy(page, *own);
    pool_->release(copied.isOk() ? std::exchange(page, *own) : *own);
    return copied;
  }
  if (shared)
    return poolIsFull();
  pool_->withdraw(page);
  pool_->touch(page);
  return Status::ok();
}

Status Engine::reserve(Sequence &sequence, int32_t count) {
  if (states_ && sequence.state_ == StatePool::kNone) {
    assert(sequence.tokens_.empty() && "else restoreState() made one");
    sequence.state_ = states_->allocate();
    if (sequence.state_ == StatePool::kNone)
      return statesAreFull();
  }
  if (sequence.position() % kKvPage != 0)
    MOE_RETURN_IF_ERROR(makeWritable(sequence.pages_.back()));
  size_t rows = size_t(sequence.position()) + size_t(count);
  while (sequence.pages_.size() * kKvPage < rows) {
    std::optional<int32_t> page = pool_->allocate();
    if (!page) {
      sequence.trim();
      return poolIsFull();
    }
    sequence.pages_.push_back(*page);
  }
  return Status::ok();
}

void Engine::publish(Sequence &sequence) {
  if (!sequence.options_.sharePrefixes)
    return;
  std::span<const int32_t> tokens = sequence.tokens_;
  for (size_t &i = sequence.published_; (i + 1) * kKvPage <= tokens.size(); ++i)
    sequence.pages_[i] = pool_->publish(
        sequence.pages_[i],
        i == 0 ? KvPool::root(sequence.options_.group) : sequence.pages_[i - 1],
        tokens.subspan(i * kKvPage, kKvPage));
}

StatusOr<std::span<const float>>
Engine::runPhase(const RunnablePhase &phase, std::span<const std::byte> input,
                 const moek::Step &step, const std::atomic<bool> *cancel) {
  MOE_RETURN_IF_ERROR(devices_->setInput(phase, input));
  times_.assign(observer_ ? phase.instructions : 0, {});
  auto start = std::chrono::steady_clock::now();
  MOE_RETURN_IF_ERROR(devices_->run(phase, step, cancel, times_));
  if (observer_) {
    std::chrono::duration<double> seconds =
        std::chrono::steady_clock::now() - start;
    observer_({phase.kind, step, seconds.count(), times_});
  }
  return devices_->output(phase, step.tokens);
}

Status Engine::step(std::span<Request> requests, const LogitsSink &sink) {
  std::vector<Part> singles, prompts;
  int32_t promptRows = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    Request &request = requests[i];
    if (!request.isOpen())
      continue;
    auto isSame = [&](const Request &other) {
      return other.sequence == request.sequence;
    };
    request.status =
        std::any_of(requests.begin(), requests.begin() + int64_t(i), isSame)
            ? Status(StatusCode::Usage, "a sequence is in a step twice")
            : check(request);
    if (!request.status.isOk())
      continue;
    MOE_RETURN_IF_ERROR(restoreState(request));
    if (!request.status.isOk())
      continue;
    if (request.logits != Request::Logits::All && !request.hidden &&
        !request.together)
      request.tokens = request.tokens.subspan(
          size_t(takePrefix(*request.sequence, request.tokens)));
    auto left = int32_t(request.tokens.size());
    if (request.together || (left == 1 && !request.hidden)) {
      singles.push_back({i, left});
    } else if (left == 1) {
      request.tokens = {};
    } else if (promptRows < ubatch() && prompts.size() < kMaxSequences) {
      const int32_t most = std::max(request.most, request.hidden ? 2 : 1);
      int32_t count = std::min({left, most, ubatch() - promptRows});
      if (!request.hidden)
        count = limitToCheckpoint(request, count);
      prompts.push_back({i, count});
      promptRows += prompts.back().count;
    }
  }

  auto run = [&](const RunnablePhase &phase, std::span<const Part> parts) {
    return runTokenBatch(phase, requests, {parts.begin(), parts.end()}, sink);
  };
  MOE_RETURN_IF_ERROR(runGenerating(requests, singles, sink));
  if (streamed_ && promptRows >= streamed_->minTokens)
    return run(*streamed_, prompts);
  if (prefill_ && promptRows >= prefill_->minTokens)
    return run(*prefill_, prompts);
  for (Part part : prompts) {
    part.count = std::min(part.count, decode_.maxTokens);
    MOE_RETURN_IF_ERROR(run(decode_, {&part, 1}));
  }
  return Status::ok();
}

Status Engine::runGenerating(std::span<Request> requests,
                             std::span<const Part> parts,
                             const LogitsSink &sink) {
  while (!parts.empty()) {
    size_t count = 0;
    int32_t rows = 0;
    while (count < parts.size() && rows + parts[count].count <= batch())
      rows += parts[count++].count;
    const RunnablePhase &phase = rows > 1 ? *batch_ : decode_;
    MOE_RETURN_IF_ERROR(
        runTokenBatch(phase, requests,
                      {parts.begin(), parts.begin() + int64_t(count)}, sink));
    parts = parts.subspan(count);
  }
  return Status::ok();
}

/// Returns whether the logits of a request's only token are wanted.
static bool wantsLogits(const Request &request) {
  return request.logits == Request::Logits::All ||
         (request.logits == Request::Logits::Last &&
          request.tokens.size() == 1);
}

Status Engine::runTokenBatch(const RunnablePhase &phase,
                             std::span<Request> requests,
                             std::vector<Part> parts, const LogitsSink &sink) {
  std::erase_if(parts, [&](Part part) {
    Request &request = requests[part.request];
    request.status = reserve(*request.sequence, part.count);
    return !request.status.isOk();
  });
  std::vector<int32_t> tokens;
  rows_.clear();
  for (Part part : parts) {
    const Request &request = requests[part.request];
    rows_.push_back({int32_t(tokens.size()), part.count,
                     request.sequence->position(),
                     request.sequence->pages_.data(),
                     std::max(0, request.sequence->state_)});
    tokens.insert(tokens.end(), request.tokens.begin(),
                  request.tokens.begin() + part.count);
  }
  auto trim = [&] {
    for (Part part : parts)
      requests[part.request].sequence->trim();
  };
  // The tokens that are left may suit another phase in the next step.
  if (int32_t(tokens.size()) < phase.minTokens) {
    trim();
    return Status::ok();
  }
  if (states_)
    for (Part part : parts) {
      const Sequence &sequence = *requests[part.request].sequence;
      states_->grow(sequence.state_, sequence.position() + part.count);
    }
  const moek::Step step{int32_t(tokens.size()), rows_.front().position,
                        rows_.data(), int32_t(rows_.size())};
  // A sequence's cancel flag may end a step only if the step has no other
  // sequence.
  const std::atomic<bool> *cancel =
      parts.size() == 1 ? requests[parts[0].request].sequence->cancel_
                        : nullptr;
  auto input = std::as_bytes(std::span(tokens));
  StatusOr<std::span<const float>> output =
      runPhase(phase, input, step, cancel);
  if (!output) {
    // It is unknown which layers had already run.
    for (Part part : parts)
      requests[part.request].sequence->dropStaleState();
    trim();
    if (output.status().code() != StatusCode::Cancelled)
      return output.status();
    requests[parts[0].request].status = output.status();
    return Status::ok();
  }
  std::vector<Wanted> wanted;
  std::vector<size_t> broken;
  if (phase.endsWithLogits) {
    // The only row of the step; it stays valid until the next run of a phase.
    if (!allFinite(*output))
      broken.push_back(parts[0].request);
    else if (Request &request = requests[parts[0].request];
             wantsLogits(request))
      MOE_RETURN_IF_ERROR(
          sink(parts[0].request, request.sequence->position(), *output));
  } else {
    broken = gather(*output, requests, parts, wanted);
  }
  if (!broken.empty()) {
    Status cause =
        diagnose(plan_, *files_, *devices_, phase, input, step, cancel);
    for (size_t index : broken)
      requests[index].status = cause;
    // diagnose() ran the step again on states that already contained its
    // tokens.
    for (Part part : parts)
      requests[part.request].sequence->dropStaleState();
  }
  for (Part part : parts)
    if (Request &request = requests[part.request]; request.status.isOk()) {
      advance(request, part.count);
      MOE_RETURN_IF_ERROR(saveCheckpoint(request, part.count));
    }
  trim();
  return head(requests, wanted, sink);
}

std::vector<size_t> Engine::gather(std::span<const float> output,
                                   std::span<const Request> requests,
                                   std::span<const Part> parts,
                                   std::vector<Wanted> &wanted) {
  hidden_.clear();
  std::vector<size_t> broken;
  for (auto [index, count] : parts) {
    const Request &request = requests[index];
    std::span<const float> rows =
        output.first(size_t(count) * size_t(hiddenSize_));
    output = output.subspan(rows.size());
    // Every token is checked: a NaN of an earlier token need not reach the
    // logits of the last one.
    if (!allFinite(rows)) {
      broken.push_back(index);
      continue;
    }
    bool ends = request.tokens.size() == size_t(count);
    if (request.hidden) {
      for (int32_t row = 0; row < count - int32_t(ends); ++row)
        request.hidden(
            request.sequence->position() + row,
            headNorm_->apply(rows.subspan(size_t(row) * size_t(hiddenSize_),
                                          size_t(hiddenSize_))));
      continue;
    }
    int32_t first = count;
    if (request.logits == Request::Logits::All || request.together)
      first = 0;
    else if (request.logits == Request::Logits::Last && ends)
      first = count - 1;
    for (int32_t row = first; row < count; ++row)
      wanted.push_back({index, request.sequence->position() + row});
    hidden_.insert(hidden_.end(), rows.begin() + first * hiddenSize_,
                   rows.end());
  }
  return broken;
}

void Engine::advance(Request &request, int32_t count) {
  Sequence &sequence = *request.sequence;
  sequence.tokens_.insert(sequence.tokens_.end(), request.tokens.begin(),
                          request.tokens.begin() + count);
  request.tokens = request.tokens.subspan(size_t(count));
  publish(sequence);
}

Status Engine::head(std::span<Request> requests, std::span<const Wanted> wanted,
                    const LogitsSink &sink) {
  std::span<const float> left = hidden_;
  while (!wanted.empty()) {
    size_t rows = std::min(wanted.size(), size_t(logits_.maxTokens));
    std::span<const float> hidden = left.first(rows * size_t(hiddenSize_));
    left = left.subspan(hidden.size());
    const moek::Step step{int32_t(rows), 0};
    bool alone = wanted.front().request == wanted.back().request;
    const std::atomic<bool> *cancel =
        alone ? requests[wanted.front().request].sequence->cancel_ : nullptr;
    auto input = std::as_bytes(hidden);
    StatusOr<std::span<const float>> output =
        runPhase(logits_, input, step, cancel);
    if (!output) {
      if (output.status().code() != StatusCode::Cancelled)
        return output.status();
      requests[wanted.front().request].status = output.status();
      return Status::ok();
    }
    std::vector<size_t> broken;
    for (size_t i = 0; i < rows; ++i) {
      std::span<const float> logits =
          output->subspan(i * logitsSize_, logitsSize_);
      if (!allFinite(logits))
        broken.push_back(wanted[i].request);
      else
        MOE_RETURN_IF_ERROR(
            sink(wanted[i].request, wanted[i].position, logits));
    }
    if (!broken.empty()) {
      Status cause =
          diagnose(plan_, *files_, *devices_, logits_, input, step, cancel);
      for (size_t index : broken)
        requests[index].status = cause;
    }
    wanted = wanted.subspan(rows);
  }
  return Status::ok();
}

StatusOr<std::span<const float>>
Engine::append(Sequence &sequence, std::span<const int32_t> tokens) {
  if (tokens.empty())
    return Status(StatusCode::Usage, "there are no tokens to process");
  Request request{&sequence, tokens};
  std::span<const float> last;
  while (request.isOpen())
    MOE_RETURN_IF_ERROR(step(
        {&request, 1}, [&](size_t, int32_t, std::span<const float> logits) {
          last = logits;
          return Status::ok();
        }));
  MOE_RETURN_IF_ERROR(request.status);
  return last;
}

Status Engine::appendAll(Sequence &sequence, std::span<const int32_t> tokens,
                         const LogitsSink &sink) {
  if (tokens.empty())
    return Status(StatusCode::Usage, "there are no tokens to process");
  Request request{&sequence, tokens, Request::Logits::All};
  while (request.isOpen())
    MOE_RETURN_IF_ERROR(step({&request, 1}, sink));
  return request.status;
}

} // namespace moert
