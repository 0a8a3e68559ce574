// Gives sequences the states of recurrent and windowed layers (StatePool.h).
#include "runtime/base/Text.h"
#include "runtime/engine/Engine.h"

#include <algorithm>
#include <fmt/format.h>

namespace moert {

using moek::kKvPage;

Status Engine::statesAreFull() const {
  return Status(
      StatusCode::DoesNotFit,
      fmt::format("there is room for the states of {}, and all of it is "
                  "in use; end a sequence, or compile for more with "
                  "--sequences",
                  counted(size_t(states_->slots()), "sequence")));
}

Status Engine::restoreState(Request &request) {
  Sequence &sequence = *request.sequence;
  std::vector<int32_t> &tokens = sequence.tokens_;
  if (!states_ || sequence.state_ != StatePool::kNone || tokens.empty())
    return Status::ok();
  size_t pages = std::min(tokens.size() / kKvPage, sequence.pages_.size());
  for (; pages > 0; --pages)
    if (sequence.state_ = states_->take(sequence.pages_[pages - 1]);
        sequence.state_ != StatePool::kNone)
      break;
  std::vector<int32_t> rest(tokens.begin() + int64_t(pages) * kKvPage,
                            tokens.end());
  tokens.resize(pages * kKvPage);
  sequence.trim();

  Request again{&sequence, rest, Request::Logits::None};
  Status status;
  while (status.isOk() && again.isOpen())
    status = step({&again, 1}, [](size_t, int32_t, std::span<const float>) {
      return Status::ok();
    });
  request.status = again.status;
  if (!again.tokens.empty()) {
    sequence.dropState();
    tokens.insert(tokens.end(), again.tokens.begin(), again.tokens.end());
  }
  return status;
}

int32_t Engine::limitToCheckpoint(const Request &request, int32_t count) const {
  if (!states_ || states_->holdsWholePages())
    return count;
  int64_t position = request.sequence->position();
  int64_t end = position + int64_t(request.tokens.size());
  int64_t boundary = (end - 1) / kKvPage * kKvPage;
  return position < boundary
             ? int32_t(std::min(int64_t(count), boundary - position))
             : count;
}

Status Engine::saveCheckpoint(const Request &request, int32_t count) {
  const Sequence &sequence = *request.sequence;
  size_t left = request.tokens.size();
  if (sequence.state_ == StatePool::kNone)
    return Status::ok();
  int32_t page = sequence.position() / kKvPage - 1;
  bool isPrompt = states_->holdsWholePages()
                      ? count > 1 && left == 0
                      : left > 0 && left <= size_t(kKvPage) &&
                            sequence.position() % kKvPage == 0;
  return isPrompt && page >= 0
             ? states_->keep(sequence.state_, sequence.pages_[size_t(page)])
             : Status::ok();
}

} // namespace moert
