//===- Constraint.h - Holds a reply to a grammar ----------------*- C++ -*-===//
//
// The answer follows the grammar from its first byte to its end. Where
// reasoning is told from the answer, what comes before the answer is reasoning,
// which is free, and the marks around it (Reasoning.h): the model may begin to
// reason, and a grammar holds again as soon as it has ended.
//
// Everything that cannot be held to the grammar is an error.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_CHAT_CONSTRAINT_H
#define MOE_RUNTIME_CHAT_CONSTRAINT_H

#include "runtime/constrain/MatcherPool.h"
#include "runtime/text/Reasoning.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

class Tokenizer;

/// What the constraints of a tokenizer share. Immutable; threads may share it.
struct ConstraintVocabulary {
  /// `tokenizer` must outlive this.
  explicit ConstraintVocabulary(const Tokenizer &tokenizer);

  const Tokenizer &tokenizer;
  std::shared_ptr<const TokenTrie> trie;
  /// Of finished constraints. It may change although this is immutable.
  std::shared_ptr<MatcherPool> matchers;
  /// Tokens that can only begin a mark, or are one.
  std::vector<int32_t> marks;
  /// A bit for every token that does not end generation.
  std::vector<uint64_t> others;
};

/// Not for several threads.
class Constraint {
public:
  /// `prompt` is the text before the reply: it may have begun the reasoning.
  Constraint(std::shared_ptr<const Automaton> grammar,
             std::shared_ptr<const ConstraintVocabulary> vocabulary,
             bool splitReasoning, std::string_view prompt);
  ~Constraint();

  /// Returns a bit per token that may be next (Matcher::allowed). Valid until
  /// the next call. Fails with DoesNotFit if a limit of the matcher is exceeded
  /// and with Unsupported if no token of the vocabulary can follow.
  StatusOr<std::span<const uint64_t>> allowed();

  /// Works on what allowed() will return (Matcher::prepare). Returns whether it
  /// is ready.
  StatusOr<bool> prepare(uint64_t steps);

  /// Takes the next token, which must be allowed.
  Status accept(int32_t token);

  /// Whether nothing can follow: the answer is complete.
  bool hasEnded() const { return isAnswer_ && matcher_->hasEnded(); }

private:
  /// Most tokens of marks before the answer: a model that goes on and on with
  /// marks is held to the answer's grammar after these.
  static constexpr int kMostMarkTokens = 32;

  void allowMarks(std::vector<uint64_t> &mask) const;
  Status acceptMark(std::string_view bytes);
  Status acceptReasoning(std::string_view bytes);

  std::shared_ptr<const ConstraintVocabulary> vocabulary_;
  std::unique_ptr<Matcher> matcher_;
  bool isAnswer_; ///< The answer has begun.
  ReasoningSplitter splitter_;
  std::string mark_; ///< The part of a mark that has been written.
  int markTokens_ = 0;
  std::vector<uint64_t> mask_; ///< What allowed() returned, if not a matcher's.
};

} // namespace moert

#endif // MOE_RUNTIME_CHAT_CONSTRAINT_H
