#include "runtime/chat/Constraint.h"

#include <algorithm>

namespace moert {

ConstraintVocabulary::ConstraintVocabulary(const Tokenizer &tokenizer)
    : trie(std::make_shared<const TokenTrie>(tokenizer)),
      matchers(std::make_shared<MatcherPool>(trie)) {}

Constraint::Constraint(std::shared_ptr<const Automaton> grammar,
                       std::shared_ptr<const ConstraintVocabulary> vocabulary)
    : vocabulary_(std::move(vocabulary)),
      matcher_(vocabulary_->matchers->take(std::move(grammar))) {}

Constraint::~Constraint() { vocabulary_->matchers->put(std::move(matcher_)); }

StatusOr<std::span<const uint64_t>> Constraint::allowed() {
  MOE_ASSIGN_OR_RETURN(std::span<const uint64_t> mask, matcher_->allowed());
  if (std::ranges::all_of(mask, [](uint64_t word) { return word == 0; }))
    return Status(StatusCode::Unsupported,
                  "the grammar cannot go on: no token of the vocabulary can "
                  "follow the text so far");
  return mask;
}

StatusOr<bool> Constraint::prepare(uint64_t steps) {
  return matcher_->prepare(steps);
}

} // namespace moert
