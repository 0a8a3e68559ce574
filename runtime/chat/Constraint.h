//===- Constraint.h - Holds a reply to a grammar ----------------*- C++ -*-===//
//
// The grammar is that of the whole reply, with its reasoning and marks
// (ReplyGrammar.h). A reply that cannot follow it ends with an error.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_CHAT_CONSTRAINT_H
#define MOE_RUNTIME_CHAT_CONSTRAINT_H

#include "runtime/constrain/MatcherPool.h"

#include <memory>
#include <span>

namespace moert {

class Tokenizer;

/// What the constraints of a tokenizer share. Immutable; threads may share it.
struct ConstraintVocabulary {
  explicit ConstraintVocabulary(const Tokenizer &tokenizer);

  std::shared_ptr<const TokenTrie> trie;
  /// Matchers of finished constraints, for reuse. The pool has a lock of its
  /// own.
  std::shared_ptr<MatcherPool> matchers;
};

/// An object must not be used by several threads at the same time.
class Constraint {
public:
  Constraint(std::shared_ptr<const Automaton> grammar,
             std::shared_ptr<const ConstraintVocabulary> vocabulary);
  ~Constraint();

  /// Returns a bit per token that may be next (Matcher::allowed). Valid until
  /// the next call. Fails with DoesNotFit if a limit of the matcher is exceeded
  /// and with Unsupported if no token of the vocabulary can follow.
  StatusOr<std::span<const uint64_t>> allowed();

  /// Works on what allowed() will return (Matcher::prepare). Returns whether it
  /// is ready.
  StatusOr<bool> prepare(uint64_t steps);

  /// Takes the next token, which must be allowed.
  Status accept(int32_t token) { return matcher_->accept(token); }

  /// Whether nothing can follow: the reply is complete.
  bool hasEnded() const { return matcher_->hasEnded(); }

private:
  std::shared_ptr<const ConstraintVocabulary> vocabulary_;
  std::unique_ptr<Matcher> matcher_;
};

} // namespace moert

#endif // MOE_RUNTIME_CHAT_CONSTRAINT_H
