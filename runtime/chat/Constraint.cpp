#include "runtime/chat/Constraint.h"

#include "runtime/text/Tokenizer.h"

#include <algorithm>

namespace moert {

namespace {
bool isMark(std::string_view text) {
  return std::ranges::any_of(reasoningMarks(), [&](const ReasoningMark &mark) {
    return mark.text == text;
  });
}

bool beginsMark(std::string_view text) {
  return std::ranges::any_of(reasoningMarks(), [&](const ReasoningMark &mark) {
    return mark.text.starts_with(text);
  });
}

void set(std::vector<uint64_t> &mask, int32_t id) {
  mask[size_t(id) / 64] |= uint64_t(1) << (id % 64);
}

bool isSet(std::span<const uint64_t> mask, int32_t id) {
  return id >= 0 && size_t(id) / 64 < mask.size() &&
         (mask[size_t(id) / 64] >> (id % 64) & 1) != 0;
}
} // namespace

ConstraintVocabulary::ConstraintVocabulary(const Tokenizer &tokenizer)
    : tokenizer(tokenizer), trie(std::make_shared<const TokenTrie>(tokenizer)),
      matchers(std::make_shared<MatcherPool>(trie)),
      others((size_t(tokenizer.vocabularySize()) + 63) / 64, 0) {
  for (int32_t id = 0; id < tokenizer.vocabularySize(); ++id) {
    if (tokenizer.isEndOfGeneration(id))
      continue;
    set(others, id);
    // The beginning of a mark that is ordinary text could begin anything else.
    std::string_view bytes = tokenizer.tokenBytes(id);
    if (!bytes.empty() &&
        (tokenizer.isControl(id) ? beginsMark(bytes) : isMark(bytes)))
      marks.push_back(id);
  }
}

Constraint::Constraint(std::shared_ptr<const Automaton> grammar,
                       std::shared_ptr<const ConstraintVocabulary> vocabulary,
                       bool splitReasoning, std::string_view prompt)
    : vocabulary_(std::move(vocabulary)),
      matcher_(vocabulary_->matchers->take(std::move(grammar))),
      isAnswer_(!splitReasoning), splitter_(prompt) {}

Constraint::~Constraint() { vocabulary_->matchers->put(std::move(matcher_)); }

void Constraint::allowMarks(std::vector<uint64_t> &mask) const {
  if (mark_.empty()) {
    for (int32_t id : vocabulary_->marks)
      set(mask, id);
    return;
  }
  for (int32_t id = 0; id < vocabulary_->tokenizer.vocabularySize(); ++id) {
    std::string_view bytes = vocabulary_->tokenizer.tokenBytes(id);
    if (!bytes.empty() && isSet(vocabulary_->others, id) &&
        beginsMark(mark_ + std::string(bytes)))
      set(mask, id);
  }
}

StatusOr<std::span<const uint64_t>> Constraint::allowed() {
  if (!isAnswer_ && splitter_.isReasoning())
    return std::span<const uint64_t>(vocabulary_->others);
  std::span<const uint64_t> mask;
  if (mark_.empty()) {
    MOE_ASSIGN_OR_RETURN(mask, matcher_->allowed());
  }
  if (!isAnswer_ && markTokens_ < kMostMarkTokens) {
    mask_.assign(mask.begin(), mask.end());
    mask_.resize(vocabulary_->others.size(), 0);
    allowMarks(mask_);
    mask = mask_;
  }
  if (std::ranges::all_of(mask, [](uint64_t word) { return word == 0; }))
    return Status(StatusCode::Unsupported,
                  "the grammar cannot go on: no token of the vocabulary can "
                  "follow the text so far");
  return mask;
}

StatusOr<bool> Constraint::prepare(uint64_t steps) {
  const bool isFree = !isAnswer_ && splitter_.isReasoning();
  if (isFree || !mark_.empty())
    return true;
  return matcher_->prepare(steps);
}

Status Constraint::acceptReasoning(std::string_view bytes) {
  auto parts = splitter_.push(bytes);
  const bool hasAnswer = std::ranges::any_of(
      parts, [](const auto &part) { return !part.isReasoning; });
  if (hasAnswer || (!splitter_.isReasoning() && splitter_.holdsText()))
    return Status(StatusCode::Unsupported,
                  "the token that ends the reasoning also begins the answer, "
                  "which therefore cannot be held to the grammar");
  return Status::ok();
}

Status Constraint::acceptMark(std::string_view bytes) {
  mark_ += bytes;
  ++markTokens_;
  splitter_.push(bytes);
  if (isMark(mark_))
    mark_.clear();
  else if (!beginsMark(mark_))
    return Status(StatusCode::Internal, "a mark of reasoning was broken off");
  return Status::ok();
}

Status Constraint::accept(int32_t token) {
  if (isAnswer_)
    return matcher_->accept(token);
  std::string_view bytes = vocabulary_->tokenizer.tokenBytes(token);
  if (splitter_.isReasoning())
    return acceptReasoning(bytes);
  if (!mark_.empty() || std::ranges::binary_search(vocabulary_->marks, token))
    return acceptMark(bytes);
  isAnswer_ = true;
  return matcher_->accept(token);
}

} // namespace moert
