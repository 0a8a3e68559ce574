//===- Matcher.h - Which tokens a grammar allows next -----------*- C++ -*-===//
//
// Follows a text through an Automaton, token by token. All ways to read the
// text so far are followed at the same time: a position is the set of (state,
// stack of states to return to), of which equal ones are kept once. Positions
// and the steps between them are remembered, so that text inside a list costs a
// look-up per byte: a deterministic automaton that is built where texts go.
//
// Inside strings most tokens of a vocabulary may follow. Which ones, does not
// depend on the stack as long as they stay inside: a table of them is kept for
// each state of a scanner (ScanLibrary.h), and only tokens that leave the
// string are tried one by one.
//
// Every limit closes: a text that would need more is refused, never allowed.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_CONSTRAIN_MATCHER_H
#define MOE_RUNTIME_CONSTRAIN_MATCHER_H

#include "runtime/base/Status.h"
#include "runtime/constrain/Automaton.h"
#include "runtime/constrain/ScanLibrary.h"
#include "runtime/constrain/TokenTrie.h"

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace moert {

struct MatcherLimits {
  /// Rules inside each other, such as lists in lists. Deeper text is refused.
  int32_t depth = 2000;
  /// Ways to read the text so far; more are an error.
  size_t ways = 65'536;
  /// Positions to remember between tokens, at 1 KiB each and up to eight times
  /// as many during one; likewise 32 times as many ways of all of them
  /// together, at 20 bytes each. Masks have a bit per token and position.
  size_t positions = 8192;
  /// Limit during a token.
  size_t mostPositions() const { return 8 * positions; }
  size_t allWays() const { return 32 * positions; }
  size_t rewind = 1024; ///< Number of tokens that can be taken back.
  /// Steps of work for all tokens of a text, and further ones for each. A step
  /// takes about ten nanoseconds.
  uint64_t work = 1'000'000'000, workPerToken = 5'000'000;
};

/// A matcher must not be shared between threads. Grammar and vocabulary may be
/// shared, and must not change.
class Matcher {
public:
  /// Matchers of one vocabulary may share a library, also between threads.
  Matcher(std::shared_ptr<const Automaton> automaton,
          std::shared_ptr<const TokenTrie> tokens, MatcherLimits limits = {},
          std::shared_ptr<ScanLibrary> library = nullptr);

  /// Works on the mask of the next token, for about `steps` steps of work.
  /// Returns whether allowed() has it ready; call again until it does. Fails
  /// with DoesNotFit if a limit is exceeded.
  StatusOr<bool> prepare(uint64_t steps);

  /// Returns a bit per token of the vocabulary: bit id % 64 of word id / 64 is
  /// set if the token may be next. The tokens that end a text may be next where
  /// the text is complete. Valid until the next call. Does what prepare() has
  /// left to do. Fails with DoesNotFit if a limit is exceeded.
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
  const std::shared_ptr<const Automaton> &sharedAutomaton() const {
    return automaton_;
  }
  /// Whether a scanner has learnt more states than it may, so that the matcher
  /// is no use for another text.
  bool isSpent() const;
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
  using Mask = std::vector<uint64_t>;
  static constexpr PositionId kUnknown = -1, kDead = -2, kEnded = -3;
  static constexpr FrameId kBottom = -1;
  static constexpr size_t kMostMaskBytes = size_t(16) << 20;

  /// A stack of states to return to, for what encloses the current position.
  struct Frame {
    Automaton::StateId followUp = Automaton::kNone;
    FrameId parent = kBottom;
    /// For states of a series: how many parts have been read, or, if they come
    /// in any order, an index into seen_, negated.
    int32_t data = 0;
    int32_t check = -1; ///< Index of the condition for returning; -1: none.
    uint32_t start = 0; ///< Offset in bytes of the text of the innermost check.
    int32_t depth = 1;
    bool operator==(const Frame &) const = default;
  };
  struct FrameHash {
    size_t operator()(const Frame &frame) const;
  };
  /// The entries of a series that have been read.
  struct Seen {
    Bits bits; ///< A bit for each entry, or each name; the last word is not 0.
    Bits gone; ///< A bit for each variant that the entries rule out.
    int32_t count = 0; ///< Number of all parts, up to the limits that matter.
    int32_t required = 0; ///< Number of required entries.
    int32_t name = -1;    ///< The name whose entry comes next; -1: none.
    bool operator==(const Seen &) const = default;
    uint64_t hash() const;
  };
  struct Way {
    Automaton::StateId state;
    FrameId frame;
    ScanState scan = {};
    auto operator<=>(const Way &) const = default;
  };
  struct Position {
    std::vector<Way> ways; ///< Sorted ways; their states read a byte.
    bool canEnd;
    /// The next position for each byte.
    std::unique_ptr<std::array<PositionId, 256>> next;
  };
  struct Past {
    PositionId position;
    size_t length; ///< Length of the text in bytes.
  };

  /// A part of the work on a mask: entries of the trie are tried in order.
  struct Job {
    enum class Kind : uint8_t {
      Walk, ///< Tries all entries from a position.
      List, ///< Tries the entries that leave a table's text, from a position.
      Table ///< Computes the table of a way.
    };
    Kind kind;
    PositionId from = kDead;
    Way way = {};
    std::shared_ptr<TokenTable> made = {};
    std::shared_ptr<const TokenTable> table = {};
    size_t index = 0; ///< Index of the next entry.
    /// Offset of the byte at which the last entry was refused.
    size_t dead = SIZE_MAX;
    std::vector<PositionId> path = {};
    struct ScanPoint {
      ScanState state;
      /// Whether the scanner's text could have ended before this point.
      bool hasLeft;
    };
    std::vector<ScanPoint> scanPath = {};
    /// Least `shared` of the entries after the last one in the table.
    uint32_t sharedSince = UINT32_MAX;
  };
  struct Pending {
    PositionId at;
    Mask mask;
    std::vector<Job> jobs; ///< A stack: the last one is next.
  };

  // Matcher.cpp
  void remember(PositionId at);
  /// Begins the history, which is empty, with the position before any text.
  void start();
  Status fullStatus() const;
  /// Forgets everything but the positions of the history.
  void forget();

  // MatcherStep.cpp
  PositionId step(PositionId from, uint8_t byte);
  /// Follows all edges that read nothing.
  PositionId close(std::vector<Way> open);
  PositionId positionOf(std::vector<Way> ways, bool canEnd);
  bool holds(int32_t check, std::string_view text);
  FrameId frame(Frame frame);
  Way wayTo(Automaton::StateId state, FrameId frame);
  ScanRun &scanRun(int32_t index);
  static uint64_t hashOf(const Position &position);
  bool isCrowded() const;

  // MatcherSeries.cpp
  using Follow = std::function<void(Way)>;
  void followSeries(const Way &way, const Automaton::State &state,
                    const Follow &follow,
                    const std::function<void(FrameId)> &leave);
  void followName(const Way &way, const Automaton::State &state,
                  const Follow &follow);
  void followEntries(const Way &way, const Automaton::SeriesStates &series,
                     const Follow &follow);
  void callPart(const Automaton::SeriesStates &series, Frame own, int32_t data,
                Automaton::StateId part, const Follow &follow);
  int32_t seenWith(const Automaton::SeriesStates &series, int32_t data,
                   std::optional<size_t> entry);
  static bool leaveVariants(const Automaton::SeriesStates &series,
                            const std::vector<int32_t> &left, Seen &seen);
  static Bits variantsWith(const Automaton::SeriesStates &series, int32_t name,
                           const Bits &gone);
  int32_t keep(Seen seen);
  const Seen &seenOf(int32_t data) const { return seen_[size_t(-data)]; }
  bool fitsVariant(const Automaton::SeriesStates &series,
                   const Seen &seen) const;
  const Bits &closedNames(int32_t series, int32_t data);
  /// The run of a way's scanner. Of the names that it reads, those are left out
  /// that may not come.
  ScanRun &runOf(const Way &way);

  // MatcherMask.cpp
  void begin(PositionId at);
  /// Works on jobs, for so many steps. Returns whether none is left.
  bool work(uint64_t steps);
  bool walk(Job &job, uint64_t until);
  bool makeTable(Job &job, uint64_t until);
  void apply(const std::shared_ptr<const TokenTable> &table, Way way);
  void allow(Mask &mask, int32_t token) const;
  uint64_t workSoFar() const;
  bool isOver(uint64_t until);

  std::shared_ptr<const Automaton> automaton_;
  std::shared_ptr<const TokenTrie> tokens_;
  MatcherLimits limits_;
  std::shared_ptr<ScanLibrary> library_;
  bool isFull_ = false; ///< A limit was exceeded since it was last cleared.
  /// A step depended on the text before it, or on its length, since it was last
  /// cleared.
  bool isTextual_ = false;

  std::vector<Frame> frames_;
  std::unordered_map<Frame, FrameId, FrameHash> frameIds_;
  std::deque<Seen> seen_;
  std::unordered_multimap<uint64_t, int32_t> seenIds_; ///< Keys are hashes.
  std::map<std::pair<int32_t, int32_t>, Bits> closedNames_;
  std::vector<Position> positions_;
  size_t wayCount_ = 0; ///< Number of the ways of all positions.
  std::unordered_multimap<uint64_t, PositionId> positionIds_;
  std::unordered_map<PositionId, Mask> masks_; ///< At most kMostMaskBytes.
  /// One for each scanner, or null.
  std::vector<std::shared_ptr<LearntScan>> scans_;
  std::vector<LearntScan *> learningScans_;
  /// Verdicts of checks whose text ends with a bracket, for the next token.
  std::unordered_map<std::string, bool> verdicts_;
  std::optional<Pending> pending_;
  Mask textualMask_; ///< Mask of the present position, if the text decides it.
  bool hasTextualMask_ = false;
  /// The positions after each of the last tokens, and the one before the first
  /// of these tokens.
  std::deque<Past> history_;
  std::string text_; ///< The text so far, and the bytes that are being tried.
  size_t tokenCount_ = 0;
  /// Work without that of scanners, and with it.
  uint64_t work_ = 0, spent_ = 0;
  uint32_t rounds_ = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_CONSTRAIN_MATCHER_H
