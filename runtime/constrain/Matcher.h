//===- Matcher.h - Which tokens a grammar allows next -----------*- C++ -*-===//
//
// Follows a text through an Automaton, token by token. All ways to read the
// text so far are followed at the same time: a position is the set of (state,
// stack of states to return to), of which equal ones are kept once. Positions
// and the steps between them are remembered, so that text inside a string or a
// list costs a look-up per byte: a deterministic automaton that is built where
// texts go.
//
// Every limit closes: a text that would need more is refused, never allowed.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_CONSTRAIN_MATCHER_H
#define MOE_RUNTIME_CONSTRAIN_MATCHER_H

#include "runtime/base/Status.h"
#include "runtime/constrain/Automaton.h"
#include "runtime/constrain/TokenTrie.h"

#include <array>
#include <deque>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

namespace moert {

struct MatcherLimits {
  /// Rules inside each other, such as lists in lists. Deeper text is refused.
  int32_t depth = 500;
  /// Ways to read the text so far; more are an error.
  size_t ways = 4096;
  /// Positions to remember between tokens, at 1 KiB each and up to eight times
  /// as many during one. Masks have a bit per token and position.
  size_t positions = 8192;
  size_t rewind = 1024; ///< Tokens that can be taken back.
};

/// Not shared between threads. Grammar and vocabulary are, and must not change.
class Matcher {
public:
  Matcher(std::shared_ptr<const Automaton> automaton,
          std::shared_ptr<const TokenTrie> tokens, MatcherLimits limits = {});

  /// Returns a bit per token of the vocabulary: bit id % 64 of word id / 64 is
  /// set if the token may be next. The tokens that end a text may be next where
  /// the text is complete. Valid until the next call. Fails with DoesNotFit if
  /// a limit is exceeded.
  StatusOr<std::span<const uint64_t>> allowed();

  /// Takes the next token. Fails with Usage, and changes nothing, if the
  /// grammar does not allow it.
  Status accept(int32_t token);

  /// Takes back the last `count` tokens. Fails with Usage, and changes nothing,
  /// if there are fewer or they are too long ago.
  Status rewind(size_t count);

  /// Goes back to the beginning of a text, whatever came before, and keeps what
  /// has been learnt.
  void restart();

  const Automaton &automaton() const { return *automaton_; }
  /// Returns about how many bytes positions and masks take.
  size_t bytes() const;

  /// Returns whether the text so far is complete. More text may be possible.
  bool canEnd() const;
  /// Returns whether the text has ended: a token that ends texts was accepted,
  /// or nothing can follow.
  bool hasEnded() const;

private:
  using PositionId = int32_t;
  using FrameId = int32_t;
  static constexpr PositionId kUnknown = -1, kDead = -2, kEnded = -3;
  static constexpr FrameId kBottom = -1;

  /// A stack of states to return to, for the rules that enclose the current
  /// position.
  struct Frame {
    Automaton::StateId followUp;
    FrameId parent;
    int32_t depth;
  };
  struct Way {
    Automaton::StateId state;
    FrameId frame;
    auto operator<=>(const Way &) const = default;
  };
  struct Position {
    std::vector<Way> ways; ///< Sorted; states that read a byte.
    bool canEnd;
    std::unique_ptr<std::array<PositionId, 256>> next; ///< By byte.
  };

  PositionId step(PositionId from, uint8_t byte);
  /// Follows all edges that read nothing.
  PositionId close(std::vector<Way> open);
  FrameId frame(Automaton::StateId followUp, FrameId parent);
  static uint64_t hashOf(const Position &position);
  void remember(PositionId at);
  /// Begins the history, which is empty, with the position before any text.
  void start();
  Status fullStatus() const;
  void computeMask(PositionId at, std::vector<uint64_t> &mask);
  /// Forgets everything but the positions of the history.
  void forget();

  std::shared_ptr<const Automaton> automaton_;
  std::shared_ptr<const TokenTrie> tokens_;
  MatcherLimits limits_;
  bool isFull_ = false; ///< A limit was exceeded since it was last cleared.

  std::vector<Frame> frames_;
  std::unordered_map<uint64_t, FrameId> frameIds_;
  std::vector<Position> positions_;
  std::unordered_multimap<uint64_t, PositionId> positionIds_;
  std::unordered_map<PositionId, std::vector<uint64_t>> masks_;
  /// The positions after each of the last tokens, and the one before the first
  /// of these tokens.
  std::deque<PositionId> history_;
  size_t tokenCount_ = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_CONSTRAIN_MATCHER_H
