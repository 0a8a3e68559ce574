#include "runtime/engine/Sequence.h"

#include "runtime/base/Text.h"
#include "runtime/engine/Engine.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace moert {

Sequence::Sequence(Sequence &&other) noexcept
    : engine_(other.engine_), options_(other.options_),
      tokens_(std::exchange(other.tokens_, {})),
      pages_(std::exchange(other.pages_, {})),
      published_(std::exchange(other.published_, 0)),
      state_(std::exchange(other.state_, StatePool::kNone)),
      cancel_(other.cancel_) {}

Sequence &Sequence::operator=(Sequence &&other) noexcept {
  std::swap(engine_, other.engine_);
  std::swap(options_, other.options_);
  std::swap(tokens_, other.tokens_);
  std::swap(pages_, other.pages_);
  std::swap(published_, other.published_);
  std::swap(state_, other.state_);
  std::swap(cancel_, other.cancel_);
  return *this;
}

Sequence::~Sequence() {
  tokens_.clear();
  trim();
  dropState();
}

void Sequence::dropState() {
  if (state_ != StatePool::kNone)
    engine_->states_->release(std::exchange(state_, StatePool::kNone));
}

void Sequence::dropStaleState() {
  if (state_ != StatePool::kNone &&
      !engine_->states_->holds(state_, position()))
    dropState();
}

void Sequence::trim() {
  size_t used = (tokens_.size() + moek::kKvPage - 1) / moek::kKvPage;
  while (pages_.size() > used) {
    engine_->pool_->release(pages_.back());
    pages_.pop_back();
  }
  published_ = std::min(published_, tokens_.size() / moek::kKvPage);
}

Status Sequence::rewind(int32_t position) {
  if (position < 0 || position > this->position())
    return Status(StatusCode::Usage,
                  fmt::format("cannot rewind to position {}: {} are in the "
                              "cache",
                              position, counted(tokens_.size(), "token")));
  tokens_.resize(size_t(position));
  dropStaleState();
  trim();
  return Status::ok();
}

Sequence Sequence::fork() const {
  Sequence other(*engine_, options_);
  other.tokens_ = tokens_;
  other.pages_ = pages_;
  other.published_ = published_;
  for (int32_t page : pages_)
    engine_->pool_->retain(page);
  if (state_ != StatePool::kNone)
    other.state_ = engine_->states_->duplicate(state_);
  return other;
}

} // namespace moert
