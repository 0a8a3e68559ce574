#include "runtime/constrain/TextScanner.h"

#include <algorithm>
#include <unordered_map>

namespace moert {

ScanRun::~ScanRun() = default;
Scanner::~Scanner() = default;

namespace {
/// States of an automaton to look at before any text, and a measure of the
/// work.
constexpr size_t kMostExplored = 2000;
constexpr uint64_t kMostExploring = 400'000;
/// States that texts may lead to beyond those of the conditions.
constexpr size_t kMostStates = 50'000;
/// Characters of ASCII after which a state is dense.
constexpr int kDense = 12;

/// The place of a text within the spelling of a character.
enum Inside : uint32_t {
  kBetween,   ///< Between characters.
  kBefore,    ///< In front of the opening quote.
  kClosed,    ///< After the closing quote.
  kBackslash, ///< After a backslash.
  kHex,       ///< After \u and some digits.
  kHighUnit,  ///< After the first unit of a pair of surrogates.
  kLowU,      ///< After the backslash in front of the second unit.
  kLowHex,    ///< After its \u and some of its digits.
  kUtf8,      ///< After some of the bytes of a character.
};

/// `inside` of ScanState: Inside, digits or bytes that are missing, and the
/// value so far.
uint32_t pack(Inside inside, uint32_t missing = 0, uint32_t value = 0) {
  return uint32_t(inside) << 28 | missing << 24 | value;
}
Inside insideOf(uint32_t packed) { return Inside(packed >> 28); }
uint32_t missingOf(uint32_t packed) { return packed >> 24 & 15; }
uint32_t valueOf(uint32_t packed) { return packed & 0xFFFFFF; }

int hexDigit(uint8_t byte) {
  return byte >= '0' && byte <= '9' ? byte - '0'
         : (byte | 0x20) >= 'a' && (byte | 0x20) <= 'f'
             ? (byte | 0x20) - 'a' + 10
             : -1;
}

class TextRun final : public ScanRun {
public:
  explicit TextRun(const TextScanner &scanner)
      : rules_(scanner.rules()), dfa_(scanner.dfa()), mostStates_(kMostStates) {
    for (const TextCondition &condition : rules_.conditions)
      mostStates_ += condition.nfa ? condition.nfa->stateCount() : 0;
  }

  ScanState start() const override {
    return {dfa_.start(), pack(rules_.isJson ? kBefore : kBetween), 0};
  }
  bool next(ScanState &state, uint8_t byte) override {
    return step(state, byte, /*isLimited=*/true);
  }
  bool nextUnlimited(ScanState &state, uint8_t byte) override {
    return step(state, byte, /*isLimited=*/false);
  }
  bool canEnd(const ScanState &state) override {
    return rules_.isJson ? insideOf(state.inside) == kClosed
                         : state.inside == pack(kBetween) && isComplete(state);
  }
  bool goesOn(const ScanState &state) override {
    if (rules_.isJson || state.inside != pack(kBetween))
      return insideOf(state.inside) != kClosed;
    return anyFrom(state, 0, CharSet::kMaxCodePoint, true);
  }
  bool learns() const override { return dfa_.learns(); }
  uint64_t work() const override { return dfa_.work(); }
  bool isFull() const override { return dfa_.stateCount() > mostStates_; }

  bool isDense(const ScanState &state) override {
    // A text that may be too short can only be looked at with its length.
    if (state.inside != pack(kBetween) ||
        (state.count < rules_.least && dfa_.isExplored()))
      return false;
    auto [known, isNew] = dense_.try_emplace(state.at, false);
    if (isNew) {
      int count = 0;
      for (uint32_t c = ' '; c < 0x7F; ++c)
        count += dfa_.next(state.at, c) != TextDfa::kDead;
      known->second = count >= kDense;
    }
    return known->second;
  }
  ScanState unlimited(const ScanState &state) const override {
    return {state.at, state.inside, 0};
  }
  int32_t need(const ScanState &state) override {
    return state.inside == pack(kBetween) ? state.count + dfa_.fewest(state.at)
                                          : -1;
  }
  int32_t room(const ScanState &state) override {
    return rules_.most < 0 ? -1 : rules_.most - state.count;
  }
  void leaveOut(const Bits *without) override { dfa_.leaveOut(without); }
  size_t textAt(const ScanState &state) override {
    return dfa_.onlyList()->indexOf(state.at);
  }

private:
  uint8_t quote() const { return rules_.isSingleQuoted ? '\'' : '"'; }

  bool isComplete(const ScanState &state) {
    return state.count >= rules_.least && dfa_.accepts(state.at);
  }

  /// Takes a character.
  bool take(ScanState &state, uint32_t c, bool isLimited) {
    const int32_t at = dfa_.next(state.at, c);
    if (at == TextDfa::kDead)
      return false;
    int32_t count = state.count + 1;
    if (isLimited) {
      if (rules_.most < 0)
        count = std::min(count, rules_.least);
      else if (count > rules_.most || dfa_.fewest(at) > rules_.most - count)
        return false;
      if (count < rules_.least && dfa_.most(at) < rules_.least - count)
        return false;
    }
    state = {at, pack(kBetween), count};
    return true;
  }

  /// Whether some character from `first` to `last` can be taken.
  bool anyFrom(const ScanState &state, uint32_t first, uint32_t last,
               bool isLimited) {
    for (uint32_t c = first; c <= last; c = dfa_.nextDifferent(state.at, c)) {
      ScanState copy = state;
      if (take(copy, c, isLimited))
        return true;
    }
    return false;
  }

  /// Goes on inside the spelling of a character, if one of those that it may
  /// become can be taken.
  bool enter(ScanState &state, uint32_t inside, uint32_t first, uint32_t last,
             bool isLimited) {
    if (!anyFrom(state, first, last, isLimited))
      return false;
    state.inside = inside;
    return true;
  }

  bool step(ScanState &state, uint8_t byte, bool isLimited) {
    const uint32_t value = valueOf(state.inside);
    switch (insideOf(state.inside)) {
    case kBefore:
      if (byte != quote())
        return false;
      state.inside = pack(kBetween);
      return true;
    case kClosed:
      return false;
    case kBetween:
      return between(state, byte, isLimited);
    case kBackslash:
      return afterBackslash(state, byte, isLimited);
    case kHex:
      return hex(state, byte, isLimited);
    case kHighUnit:
    case kLowU:
      if (byte != (insideOf(state.inside) == kHighUnit ? '\\' : 'u'))
        return false;
      state.inside = insideOf(state.inside) == kHighUnit
                         ? pack(kLowU, 0, value)
                         : pack(kLowHex, 4, value);
      return true;
    case kLowHex:
      return lowHex(state, byte, isLimited);
    case kUtf8:
      return utf8(state, byte, isLimited);
    }
    return false;
  }

  bool between(ScanState &state, uint8_t byte, bool isLimited) {
    if (rules_.isJson && byte == quote()) {
      if (isLimited ? !isComplete(state) : !dfa_.accepts(state.at))
        return false;
      state = {state.at, pack(kClosed), 0};
      return true;
    }
    if (rules_.isJson && byte == '\\')
      return enter(state, pack(kBackslash), 0, CharSet::kMaxCodePoint,
                   isLimited);
    if (rules_.isJson && !rules_.isSingleQuoted && byte < 0x20)
      return false;
    if (byte < 0x80)
      return take(state, byte, isLimited);
    const uint32_t missing = byte >= 0xF0 ? 3 : byte >= 0xE0 ? 2 : 1;
    if (byte < 0xC2 || byte > 0xF4)
      return false;
    return enterUtf8(state, missing, byte & (0x3Fu >> missing), missing,
                     isLimited);
  }

  /// Goes on after some bytes of a character of `more` + 1 bytes, of which
  /// `missing` are missing.
  bool enterUtf8(ScanState &state, uint32_t missing, uint32_t value,
                 uint32_t more, bool isLimited) {
    constexpr uint32_t kSmallest[] = {0, 0x80, 0x800, 0x10000};
    const uint32_t first = std::max(value << 6 * missing, kSmallest[more]);
    const uint32_t last =
        std::min(((value + 1) << 6 * missing) - 1, CharSet::kMaxCodePoint);
    if (first > last || (first >= 0xD800 && last <= 0xDFFF))
      return false;
    // The number of all bytes tells overlong forms from others.
    return enter(state, pack(kUtf8, missing | more << 2, value), first, last,
                 isLimited);
  }

  bool utf8(ScanState &state, uint8_t byte, bool isLimited) {
    if ((byte & 0xC0) != 0x80)
      return false;
    const uint32_t packed = missingOf(state.inside);
    const uint32_t missing = (packed & 3) - 1, more = packed >> 2;
    const uint32_t value = valueOf(state.inside) << 6 | (byte & 0x3Fu);
    if (missing > 0)
      return enterUtf8(state, missing, value, more, isLimited);
    return (value < 0xD800 || value > 0xDFFF) && take(state, value, isLimited);
  }

  bool afterBackslash(ScanState &state, uint8_t byte, bool isLimited) {
    switch (byte) {
    case '\'':
      return rules_.isSingleQuoted && take(state, byte, isLimited);
    case '"':
    case '\\':
    case '/':
      return take(state, byte, isLimited);
    case 'b':
      return take(state, '\b', isLimited);
    case 'f':
      return take(state, '\f', isLimited);
    case 'n':
      return take(state, '\n', isLimited);
    case 'r':
      return take(state, '\r', isLimited);
    case 't':
      return take(state, '\t', isLimited);
    case 'u':
      return enter(state, pack(kHex, 4), 0, CharSet::kMaxCodePoint, isLimited);
    default:
      return false;
    }
  }

  bool hex(ScanState &state, uint8_t byte, bool isLimited) {
    const int digit = hexDigit(byte);
    if (digit < 0)
      return false;
    const uint32_t missing = missingOf(state.inside) - 1;
    const uint32_t value = valueOf(state.inside) << 4 | uint32_t(digit);
    const uint32_t first = value << 4 * missing;
    const uint32_t last = first | ((1u << 4 * missing) - 1);
    if (missing == 0 && (value < 0xD800 || value > 0xDFFF))
      return take(state, value, isLimited);
    // The first halves of pairs stand for all that the pairs may be.
    const uint32_t high = std::max(first, 0xD800u),
                   highest = std::min(last, 0xDBFFu);
    if (!anyFrom(state, first, std::min(last, 0xD7FFu), isLimited) &&
        !anyFrom(state, std::max(first, 0xE000u), last, isLimited) &&
        !(high <= highest &&
          anyFrom(state, pairs(high).first, pairs(highest).second, isLimited)))
      return false;
    state.inside = missing > 0 ? pack(kHex, missing, value)
                               : pack(kHighUnit, 0, value & 0x3FF);
    return true;
  }

  /// The characters of the pairs that begin with a first half.
  static std::pair<uint32_t, uint32_t> pairs(uint32_t high) {
    const uint32_t first = 0x10000 + ((high & 0x3FF) << 10);
    return {first, first | 0x3FF};
  }

  bool lowHex(ScanState &state, uint8_t byte, bool isLimited) {
    const int digit = hexDigit(byte);
    if (digit < 0)
      return false;
    const uint32_t missing = missingOf(state.inside) - 1;
    // Ten bits of the first half, then the digits of the second one.
    const uint32_t high = valueOf(state.inside) & 0x3FF;
    const uint32_t low = valueOf(state.inside) >> 10 << 4 | uint32_t(digit);
    const uint32_t first = std::max(low << 4 * missing, 0xDC00u);
    const uint32_t last =
        std::min(low << 4 * missing | ((1u << 4 * missing) - 1), 0xDFFFu);
    if (first > last)
      return false;
    const uint32_t base = 0x10000 + (high << 10);
    if (missing == 0)
      return take(state, base + (low & 0x3FF), isLimited);
    return enter(state, pack(kLowHex, missing, low << 10 | high),
                 base + (first & 0x3FF), base + (last & 0x3FF), isLimited);
  }

  const TextRules rules_;
  TextDfa dfa_;
  size_t mostStates_;
  /// Keys are states of the automaton.
  std::unordered_map<int32_t, bool> dense_;
};

uint64_t mixedScan(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ hash >> 29;
}
} // namespace

/// Returns rules with the same texts: a list that other conditions or lengths
/// limit becomes a shorter list.
static TextRules simplified(TextRules rules) {
  auto isList = [](const TextCondition &condition) {
    return condition.list && !condition.isNegated;
  };
  auto list = std::ranges::find_if(rules.conditions, isList);
  const bool isLimited =
      rules.conditions.size() > 1 || rules.least > 0 || rules.most >= 0;
  if (list == rules.conditions.end() || !isLimited)
    return rules;
  const std::shared_ptr<const TextList> all = list->list;
  rules.conditions.erase(list);
  TextDfa others(rules.conditions);
  std::vector<std::string_view> left;
  for (size_t i = 0; i < all->size(); ++i) {
    const std::vector<uint32_t> points = codePointsOf((*all)[i]);
    TextDfa::StateId state = others.start();
    for (uint32_t c : points)
      state = others.next(state, c);
    const auto length = int64_t(points.size());
    if (others.accepts(state) && length >= rules.least &&
        (rules.most < 0 || length <= rules.most))
      left.push_back((*all)[i]);
  }
  rules.conditions = {{.list = TextList::of(std::move(left))}};
  rules.least = 0;
  rules.most = -1;
  return rules;
}

TextScanner::TextScanner(TextRules rules)
    : rules_(simplified(std::move(rules))), dfa_(rules_.conditions) {
  hash_ = mixedScan(
      mixedScan(uint64_t(rules_.least), uint64_t(uint32_t(rules_.most))),
      uint64_t(rules_.isJson) << 1 | uint64_t(rules_.isSingleQuoted));
  for (const TextCondition &condition : rules_.conditions) {
    hash_ = mixedScan(hash_, condition.isNegated);
    if (condition.list) {
      hash_ = mixedScan(hash_, condition.list->hash());
      continue;
    }
    hash_ = mixedScan(hash_, condition.nfa->stateCount());
    for (const CharSet &set : condition.nfa->sets())
      for (CharSet::Range range : set.ranges())
        hash_ = mixedScan(hash_, uint64_t(range.first) << 32 | range.last);
  }
  // Conditions that exclude each other, and lengths that a pattern does not
  // have, are found before a text runs into them.
  const bool hasLengths = rules_.least > 0 || rules_.most >= 0;
  auto canConflict = [&](const TextCondition &condition) {
    return condition.nfa && (hasLengths || condition.isNegated ||
                             condition.nfa->hasWordBorders());
  };
  if (rules_.conditions.size() > 1 ||
      std::ranges::any_of(rules_.conditions, canConflict))
    dfa_.explore(kMostExplored, kMostExploring);
  const TextList *list = dfa_.onlyList();
  readsEmpty_ =
      !rules_.isJson && rules_.least == 0 && dfa_.accepts(dfa_.start());
  const TextDfa::StateId start = dfa_.start();
  isEmpty_ = list ? list->size() == 0
                  : (rules_.most >= 0 && (rules_.least > rules_.most ||
                                          dfa_.fewest(start) > rules_.most)) ||
                        dfa_.fewest(start) == TextDfa::kFar ||
                        dfa_.most(start) < rules_.least;
}

std::shared_ptr<const TextScanner> TextScanner::create(TextRules rules) {
  return std::shared_ptr<const TextScanner>(new TextScanner(std::move(rules)));
}

std::unique_ptr<ScanRun> TextScanner::run() const {
  return std::make_unique<TextRun>(*this);
}

bool TextScanner::equals(const Scanner &other) const {
  const auto *text = dynamic_cast<const TextScanner *>(&other);
  return text && text->rules_.least == rules_.least &&
         text->rules_.most == rules_.most &&
         text->rules_.isJson == rules_.isJson &&
         text->rules_.isSingleQuoted == rules_.isSingleQuoted &&
         text->rules_.conditions == rules_.conditions;
}

} // namespace moert
