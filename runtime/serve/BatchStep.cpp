// Chooses the tokens of a step, and uses its results.
#include "runtime/serve/Batch.h"
#include "runtime/serve/PrefillShares.h"

#include <algorithm>
#include <chrono>

namespace moert {

using moek::kKvPage;

bool Batch::waitsForPrefix(size_t index) const {
  const LiveGeneration &second = *running_[index];
  const int32_t position = second.position();
  if (position % kKvPage != 0 || second.needsAllTokens())
    return false;
  for (size_t i = 0; i < index; ++i) {
    const LiveGeneration &first = *running_[i];
    if (!first.isPrompt() || first.needsAllTokens() ||
        first.position() < position ||
        first.request().group != second.request().group)
      continue;
    auto equal = std::ranges::mismatch(first.text(), second.text()).in1 -
                 first.text().begin();
    // The last token of the text is never taken.
    auto shared = std::min(int64_t(equal), int64_t(second.text().size()) - 1);
    int64_t usable = shared / kKvPage * kKvPage;
    if (engine_.stateSlots() > 0) {
      // The only checkpoint of the sequence will be that at its last page
      // boundary.
      const int64_t boundary =
          (int64_t(first.text().size()) - 1) / kKvPage * kKvPage;
      usable = boundary <= shared ? boundary : 0;
    }
    if (position < usable && first.position() < usable)
      return true;
  }
  return false;
}

void Batch::leavePromptEnd(LiveGeneration &generation) {
  const int32_t position = generation.position();
  const auto length = int32_t(generation.text().size());
  const int32_t wanted =
      std::max(0, length - std::max(2, std::min(kPromptEnd, engine_.ubatch())));
  if (engine_.stateSlots() > 0 || engine_.ubatch() < 2 || position <= wanted ||
      generation.stats().generatedTokens > 0)
    return;
  if (Status status = generation.sequence->rewind(wanted); !status.isOk())
    generation.fail(std::move(status));
}

void Batch::findPrefixes() {
  for (const auto &generation : running_) {
    if (!generation->isPrompt() || generation->needsAllTokens())
      continue;
    const int32_t before = generation->position();
    if (engine_.takePrefix(*generation->sequence, generation->rest()) == 0)
      continue;
    leavePromptEnd(*generation);
    const int32_t found = generation->position() - before;
    // A generation that goes on has its prompt counted already.
    if (generation->stats().generatedTokens > 0)
      continue;
    generation->addCached(found);
    sums_.cachedTokens += uint64_t(found);
  }
}

void Batch::addDrafts(std::vector<Part> &parts) {
  if (options_.speculation == Speculation::Off || engine_.stateSlots() > 0)
    return;
  auto rows = int32_t(parts.size());
  for (Part &part : parts) {
    const int32_t spare = engine_.batch() - rows;
    if (spare <= 0)
      return;
    const auto found = int32_t(part.generation->draft(spare).size());
    part.drafted =
        options_.speculation == Speculation::Always
            ? found
            : drafts_.choose(rows, found, part.generation->draftRate());
    rows += part.drafted;
  }
}

std::vector<Batch::Part> Batch::plan() {
  std::vector<Part> parts;
  std::vector<PendingPrompt> prompts;
  std::vector<LiveGeneration *> prompting;
  /// Whether the mask of each generation with a prompt is ready.
  std::vector<bool> isReady;
  // A generation that does not take part waits for the end of the step, too.
  const bool othersWait = std::ranges::any_of(
      running_, [](const auto &each) { return !each->isPrompt(); });
  int32_t furthest = 0;
  for (size_t i = 0; i < running_.size(); ++i) {
    LiveGeneration &each = *running_[i];
    const bool hasMask =
        each.prepareMask(uint64_t(options_.maskSteps) / running_.size());
    // A generation whose mask is not ready does not take part in the step.
    if (each.hasEnded() || (!hasMask && !each.isPrompt()))
      continue;
    if (!each.isPrompt()) {
      parts.push_back({.generation = &each,
                       .isPrompt = false,
                       .most = 1,
                       .position = each.position(),
                       .accepted = each.stats().acceptedTokens});
    } else if (!waitsForPrefix(i)) {
      prompts.push_back({each.client(), each.priority(), each.id,
                         int32_t(each.rest().size())});
      prompting.push_back(&each);
      furthest = std::max(furthest, each.position());
      isReady.push_back(hasMask);
    }
  }
  addDrafts(parts);
  const int32_t tokens = chunk_.tokens(othersWait, furthest);
  std::vector<int32_t> shares =
      dividePrefill(prompts, tokens, engine_.ubatch(), prefill_);
  for (size_t i = 0; i < shares.size(); ++i) {
    // The end of the prompt, after which a token is chosen, waits for the mask.
    if (!isReady[i] && shares[i] == prompts[i].left)
      shares[i] = 0;
    if (shares[i] > 0)
      parts.push_back({.generation = prompting[i],
                       .isPrompt = true,
                       .most = shares[i],
                       .position = prompting[i]->position()});
  }
  return parts;
}

void Batch::putBack(size_t index, LiveGenerations &waiting) {
  auto from = running_.begin() + int64_t(index);
  (*from)->putBack();
  waiting.push_back(std::move(*from));
  running_.erase(from);
  ++sums_.preempted;
}

bool Batch::freeSome(LiveGenerations &waiting) {
  if (kept_.dropLeast())
    return true;
  if (running_.size() < 2)
    return false;
  // Among equal priorities, the one that began last is chosen.
  size_t least = 0;
  for (size_t i = 1; i < running_.size(); ++i)
    if (running_[i]->priority() <= running_[least]->priority())
      least = i;
  putBack(least, waiting);
  return true;
}

void Batch::makeRoom(LiveGenerations &waiting) {
  // Each may need a page for its next token. More, for prompts, was reserved.
  auto needed = [&] {
    return std::ranges::count_if(running_, [](const auto &generation) {
      return generation->position() % kKvPage == 0;
    });
  };
  while (needed() > engine_.freePages() && freeSome(waiting)) {
  }
}

void Batch::account(const std::vector<Part> &parts, double seconds) {
  int32_t prompt = 0, generating = 0, rows = 0, furthest = 0;
  for (const Part &part : parts) {
    const LiveGeneration &generation = *part.generation;
    const int32_t count = generation.position() - part.position;
    sums_.evaluatedTokens += uint64_t(std::max(0, count));
    if (part.isPrompt) {
      prompt += count;
      furthest = std::max(furthest, part.position);
    } else {
      ++generating;
      const int32_t accepted =
          generation.stats().acceptedTokens - part.accepted;
      rows += 1 + part.drafted;
      sums_.draftedTokens += uint64_t(part.drafted);
      sums_.acceptedTokens += uint64_t(accepted);
      admission_.charge(generation.client(), 1 + accepted);
    }
  }
  ++sums_.steps;
  sums_.stepSeconds.add(seconds);
  chunk_.observe(prompt, furthest, generating, seconds);
  if (prompt == 0)
    drafts_.observe(rows, seconds);
}

void Batch::interrupt(LiveGeneration &generation) {
  // Without its state, a sequence is not worth keeping.
  if (engine_.stateSlots() > 0)
    generation.sequence.reset();
  generation.finish(StopReason::Cancelled);
}

/// Returns what receives the hidden states of a text to embed.
static HiddenSink hiddenSinkOf(LiveGeneration &generation) {
  if (!generation.embeds())
    return nullptr;
  return [&](int32_t position, std::span<const float> state) {
    generation.takeHidden(position, state);
  };
}

void Batch::run(std::vector<Part> parts, LiveGenerations &waiting) {
  std::vector<Request> requests;
  for (const Part &part : parts) {
    LiveGeneration &generation = *part.generation;
    // A step that is broken off loses the state. To generate a token takes so
    // short that it need not be.
    generation.sequence->setCancel(part.isPrompt ? generation.cancelFlag()
                                                 : nullptr);
    requests.push_back(
        {.sequence = &*generation.sequence,
         .tokens = part.drafted > 0 ? generation.withDraft(part.drafted)
                                    : generation.rest(),
         .logits = generation.request().promptLogprobs ? Request::Logits::All
                                                       : Request::Logits::Last,
         .most = part.most,
         .together = part.drafted > 0,
         .hidden = hiddenSinkOf(generation)});
  }
  for (const LiveGenerations *each : {&running_, &waiting})
    for (const auto &generation : *each)
      generation->countStep();
  const auto start = std::chrono::steady_clock::now();
  deviceTimes_.beginStep();
  Status status = engine_.step(
      requests, [&](size_t i, int32_t position, std::span<const float> logits) {
        LiveGeneration &generation = *parts[i].generation;
        const bool isFirst = generation.stats().generatedTokens == 0;
        generation.takeLogits(position, logits);
        if (isFirst)
          sums_.firstTokenSeconds.add(generation.firstTokenSeconds());
        return Status::ok();
      });
  deviceTimes_.endStep();
  account(parts, std::chrono::duration<double>(
                     std::chrono::steady_clock::now() - start)
                     .count());
  bool isFull = false;
  for (size_t i = 0; i < parts.size(); ++i) {
    LiveGeneration &generation = *parts[i].generation;
    generation.settle();
    generation.reportProgress();
    const Status &own = requests[i].status;
    if (!status.isOk())
      generation.fail(status);
    else if (own.code() == StatusCode::DoesNotFit)
      isFull = true;
    else if (own.code() == StatusCode::Cancelled)
      interrupt(generation);
    else if (!own.isOk())
      generation.fail(own);
  }
  if (!status.isOk())
    sums_.lastFailure = status.message();
  retire();
  // A page was copied that nobody had counted. What did not fit is tried again,
  // with less beside it.
  if (isFull && !freeSome(waiting))
    for (size_t i = 0; i < parts.size(); ++i)
      if (requests[i].status.code() == StatusCode::DoesNotFit)
        parts[i].generation->fail(requests[i].status);
  retire();
}

void Batch::step(LiveGenerations &waiting) {
  if (running_.empty())
    return;
  findPrefixes();
  makeRoom(waiting);
  std::vector<Part> parts = plan();
  if (parts.empty())
    retire(); // All generations wait for their masks, or have failed.
  else
    run(std::move(parts), waiting);
}

} // namespace moert
