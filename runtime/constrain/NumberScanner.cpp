#include "runtime/constrain/NumberScanner.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>

namespace moert {

namespace {
using Digits = Decimal::Digits;

/// The part of a number that comes next.
enum Phase : uint32_t {
  kSign,          ///< Nothing was read: a sign or a digit is next.
  kFirst,         ///< After the sign: a digit is next.
  kZero,          ///< After a leading 0: no digit may follow.
  kWhole,         ///< After another digit of the integer part.
  kPoint,         ///< After the point: a digit is next.
  kFraction,      ///< After a digit of the fraction.
  kExponent,      ///< After the e: a sign or a digit is next.
  kExponentDigit, ///< After the exponent's sign: a digit is next.
  kExponentEnd,   ///< After a digit of the exponent.
};

/// Digits after the point, where a number has rules.
constexpr int kMostFraction = 40;
constexpr int kMostExponentDigits = 3;
/// Powers of ten of the first digits of doubles that are neither zero nor
/// infinite.
constexpr int kLeastPower = -307, kMostPower = 308;
/// Greatest power of ten that the last kept digit may have.
constexpr int kMostScale = 511;

/// A number so far. Its value is digits * 10^(scale + exponent).
struct Begun {
  Decimal amount; ///< The amount without sign and exponent.
  Phase phase = kSign;
  bool isNegative = false, isExponentNegative = false;
  int exponent = 0, exponentDigits = 0;

  static Begun unpack(const ScanState &state) {
    const auto bits = uint32_t(state.count);
    Begun begun;
    begun.amount.digits =
        Digits(bits & 15) << 64 |
        Digits(uint64_t(uint32_t(state.at)) << 32 | state.inside);
    begun.amount.hasMore = bits >> 4 & 1;
    begun.amount.exponent = int(bits >> 5 & 1023) - kMostScale;
    begun.phase = Phase(bits >> 15 & 15);
    begun.isNegative = bits >> 19 & 1;
    begun.isExponentNegative = bits >> 20 & 1;
    const auto exponent = int(bits >> 21);
    for (int digits = 1; digits <= kMostExponentDigits; ++digits)
      if (exponent >= kFirstWith[digits])
        begun.exponentDigits = digits;
    begun.exponent = exponent - kFirstWith[begun.exponentDigits];
    return begun;
  }
  ScanState pack() const {
    const auto low = uint64_t(amount.digits);
    return {int32_t(low >> 32), uint32_t(low),
            int32_t(uint32_t(amount.digits >> 64) |
                    uint32_t(amount.hasMore) << 4 |
                    uint32_t(amount.exponent + kMostScale) << 5 |
                    uint32_t(phase) << 15 | uint32_t(isNegative) << 19 |
                    uint32_t(isExponentNegative) << 20 |
                    uint32_t(exponent + kFirstWith[exponentDigits]) << 21)};
  }
  /// Exponents with so many digits are kept from this number on.
  static constexpr int kFirstWith[] = {0, 1, 11, 111};

  bool isWhole() const { return phase == kZero || phase == kWhole; }
  bool canEnd() const {
    return isWhole() || phase == kFraction || phase == kExponentEnd;
  }

  void addDigit(int digit) {
    amount.addDigit(digit);
    if (phase == kPoint || phase == kFraction)
      --amount.exponent;
    amount.exponent = std::clamp(amount.exponent, -kMostScale, kMostScale);
  }

  /// Whether more digits of a fraction would not be kept.
  bool isExact() const {
    return phase == kFraction &&
           (amount.digits >= powerOfTen(Decimal::kMostDigits - 1) ||
            amount.exponent <= -kMostFraction);
  }

  /// Takes a character. Returns false if no number goes on like this.
  bool take(char c) {
    const bool isDigit = c >= '0' && c <= '9';
    switch (phase) {
    case kSign:
      if (c == '-') {
        isNegative = true;
        phase = kFirst;
        return true;
      }
      [[fallthrough]];
    case kFirst:
      if (!isDigit)
        return false;
      phase = c == '0' ? kZero : kWhole;
      addDigit(c - '0');
      return true;
    case kZero:
    case kWhole:
      if (isDigit && phase == kWhole) {
        addDigit(c - '0');
        return true;
      }
      if (c == '.') {
        phase = kPoint;
        return true;
      }
      return takeExponent(c);
    case kPoint:
    case kFraction:
      if (isDigit) {
        addDigit(c - '0');
        phase = kFraction;
        return true;
      }
      return phase == kFraction && takeExponent(c);
    case kExponent:
      if (c == '+' || c == '-') {
        isExponentNegative = c == '-';
        phase = kExponentDigit;
        return true;
      }
      [[fallthrough]];
    case kExponentDigit:
    case kExponentEnd:
      if (!isDigit || exponentDigits == kMostExponentDigits)
        return false;
      exponent = exponent * 10 + (c - '0');
      ++exponentDigits;
      phase = kExponentEnd;
      return true;
    }
    return false;
  }

  bool takeExponent(char c) {
    if (c != 'e' && c != 'E')
      return false;
    phase = kExponent;
    return true;
  }

  Decimal number() const {
    Decimal result = amount;
    result.isNegative = isNegative;
    result.exponent += isExponentNegative ? -exponent : exponent;
    return result;
  }
};

/// digits * 10^-unit, if that is whole and fits.
std::optional<Digits> inUnits(const Decimal &amount, int unit) {
  const Decimal trimmed = amount.trimmed();
  const int zeros = trimmed.exponent - unit;
  if (zeros < 0 || trimmed.magnitude() - unit >= 37)
    return trimmed.isZero() ? std::optional<Digits>(0) : std::nullopt;
  return trimmed.digits * powerOfTen(zeros);
}

/// The smallest number that is a multiple of both; a larger one of them if that
/// has too many digits.
Decimal commonMultiple(const Decimal &one, const Decimal &two) {
  const int unit = std::min(one.trimmed().exponent, two.trimmed().exponent);
  const auto a = inUnits(one, unit), b = inUnits(two, unit);
  if (a && b && *a < powerOfTen(18) && *b < powerOfTen(18)) {
    const uint64_t x = uint64_t(*a), y = uint64_t(*b);
    const Digits common = Digits(x / std::gcd(x, y)) * y;
    if (common < powerOfTen(Decimal::kMostDigits))
      return {.digits = common, .exponent = unit};
  }
  return std::max(one, two);
}

/// The numbers of one sign that are allowed, by their amount.
struct Amounts {
  bool isPossible = true;
  Decimal least = {};
  std::optional<Decimal> most = {}; ///< Absent: no limit.
  bool excludesLeast = false, excludesMost = false;
  std::optional<Decimal> step = {}; ///< Absent: any number.
  /// The powers of ten of the first digits of those that are not zero.
  int leastPower = kLeastPower, mostPower = kMostPower;

  static Amounts of(const NumberRules &rules, bool isNegative) {
    Amounts amounts;
    auto amountOf = [](Decimal bound) {
      bound.isNegative = false;
      return bound;
    };
    // Bounds of the other sign leave all numbers, or none.
    auto hasSign = [&](const Decimal &bound) {
      return bound.isZero() || bound.isNegative == isNegative;
    };
    const auto &low = isNegative ? rules.most : rules.least;
    const auto &high = isNegative ? rules.least : rules.most;
    if (low && hasSign(*low)) {
      amounts.least = amountOf(*low);
      amounts.excludesLeast =
          isNegative ? rules.excludesMost : rules.excludesLeast;
    }
    if (high && hasSign(*high)) {
      amounts.most = amountOf(*high);
      amounts.excludesMost =
          isNegative ? rules.excludesLeast : rules.excludesMost;
    }
    amounts.isPossible = !high || hasSign(*high);
    if (rules.isInteger)
      amounts.step = Decimal{.digits = 1};
    for (const Decimal &divisor : rules.divisors)
      amounts.step =
          amounts.step ? commonMultiple(*amounts.step, divisor) : divisor;
    amounts.isPossible =
        amounts.isPossible && amounts.anyFrom(Decimal(), std::nullopt);
    for (const Decimal &least :
         {amounts.least, amounts.step.value_or(Decimal())})
      if (!least.isZero())
        amounts.leastPower = std::max(amounts.leastPower, least.magnitude());
    if (amounts.most)
      amounts.mostPower = amounts.most->isZero()
                              ? kLeastPower - 1
                              : std::min(kMostPower, amounts.most->magnitude());
    return amounts;
  }

  /// Whether there is one from `from` on and, if it is present, below `to`.
  /// Where that takes too many digits, the answer is yes.
  bool anyFrom(const Decimal &from, const std::optional<Decimal> &to) const {
    // Where two bounds are equal, the one that excludes more counts.
    const bool isLeast = from < least || (from == least && !from.hasMore);
    const Decimal first = isLeast ? least : from;
    const bool excludesFirst = isLeast ? excludesLeast : from.hasMore;
    const bool isMost = most && (!to || *most < *to);
    const std::optional<Decimal> last = isMost ? most : to;
    const bool excludesLast = isMost ? excludesMost : true;
    if (!last)
      return true;
    if (first > *last || (first == *last && (excludesFirst || excludesLast)))
      return false;
    return !step || anyMultiple(first, excludesFirst, *last, excludesLast);
  }

private:
  bool anyMultiple(const Decimal &first, bool excludesFirst,
                   const Decimal &last, bool excludesLast) const {
    const int unit =
        std::min({first.trimmed().exponent, last.trimmed().exponent,
                  step->trimmed().exponent});
    const auto low = inUnits(first, unit), high = inUnits(last, unit),
               by = inUnits(*step, unit);
    if (!high || !by || !low)
      return true;
    const Digits count = (*low + *by - 1) / *by;
    const Digits next =
        count * *by + (excludesFirst && count * *by == *low ? *by : 0);
    return excludesLast ? next < *high : next <= *high;
  }
};

class NumberRun final : public ScanRun {
public:
  explicit NumberRun(const NumberRules &rules)
      : rules_(rules), isFree_(!rules.isInteger && !rules.least &&
                               !rules.most && rules.divisors.empty()),
        amounts_{Amounts::of(rules, false), Amounts::of(rules, true)} {}

  ScanState start() const override { return Begun().pack(); }

  bool next(ScanState &state, uint8_t byte) override {
    Begun begun = Begun::unpack(state);
    // A fraction has no digits that do not count: it would not have to end.
    const bool isOver =
        !isFree_ && begun.isExact() && byte >= '0' && byte <= '9';
    if (isOver || !begun.take(char(byte)) || !canBecomeValid(begun))
      return false;
    state = begun.pack();
    return true;
  }
  bool canEnd(const ScanState &state) override {
    return isValid(Begun::unpack(state));
  }
  bool goesOn(const ScanState &state) override {
    return std::ranges::any_of(std::string_view("-+.e0123456789"), [&](char c) {
      ScanState copy = state;
      return next(copy, uint8_t(c));
    });
  }

private:
  bool isValid(const Begun &begun) const {
    if (!begun.canEnd())
      return false;
    if (isFree_)
      return true;
    Decimal number = begun.number();
    if (begun.phase == kExponentEnd && !number.isZero() &&
        (number.magnitude() < kLeastPower || number.magnitude() > kMostPower))
      return false;
    // A check divides integers with more digits than are kept.
    if (begun.isWhole() && number.hasMore)
      return rules_.isWithin(number);
    return rules_.holds(number);
  }

  bool canBecomeValid(const Begun &begun) const {
    if (isFree_)
      return true;
    if (begun.phase >= kExponent)
      return exponentCanBecomeValid(begun);
    const Amounts &amounts = amounts_[size_t(begun.isNegative)];
    if (begun.phase == kSign || !amounts.isPossible)
      return begun.phase == kSign;
    if (begun.phase == kFirst)
      return true;
    if (begun.isExact())
      return isValid(begun) ||
             (mayHaveExponent(begun) && holdsWithExponent(begun));
    return canGoOn(begun, amounts) ||
           (mayHaveExponent(begun) && canBeScientific(begun, amounts));
  }

  /// Whether there is an amount that begins with these digits and has the power
  /// of its last one.
  static bool anyWith(const Begun &begun, int power, const Amounts &amounts) {
    Decimal from = begun.amount, to = begun.amount;
    from.exponent = to.exponent = power;
    to.hasMore = false;
    ++to.digits;
    return amounts.anyFrom(from, to);
  }

  /// Whether more digits lead to a number that is wanted. An exponent could
  /// mend what has become too large; but a model that has written 500 where 100
  /// is the most would go on with zeros for ever.
  static bool canGoOn(const Begun &begun, const Amounts &amounts) {
    if (begun.phase != kWhole)
      return canHaveFraction(amounts) &&
             anyWith(begun, begun.amount.exponent, amounts);
    if (!amounts.most)
      return true;
    for (int power = begun.amount.exponent;
         begun.amount.magnitude() - begun.amount.exponent + power <=
         amounts.most->magnitude();
         ++power)
      if (anyWith(begun, power, amounts))
        return true;
    return false;
  }

  /// Whether digits after the point reach as far as what is wanted.
  static bool canHaveFraction(const Amounts &amounts) {
    return !amounts.most || amounts.most->isZero() ||
           amounts.most->magnitude() > -kMostFraction ||
           (amounts.least.isZero() && !amounts.excludesLeast);
  }

  /// Whether an exponent can follow as programs write it: after a single digit,
  /// or after a fraction.
  static bool mayHaveExponent(const Begun &begun) {
    return !begun.amount.isZero() &&
           (!begun.isWhole() || begun.amount.magnitude() == 0);
  }

  static bool canBeScientific(const Begun &begun, const Amounts &amounts) {
    const int below = begun.amount.magnitude() - begun.amount.exponent;
    for (int power = amounts.mostPower; power >= amounts.leastPower; --power)
      if (anyWith(begun, power - below, amounts))
        return true;
    return false;
  }

  /// Tries all exponents.
  bool holdsWithExponent(Begun begun) const {
    begun.phase = kExponent;
    return exponentCanBecomeValid(begun);
  }

  /// Tries the exponents that more characters can make.
  bool exponentCanBecomeValid(Begun begun) const {
    const Begun now = std::exchange(begun, withEnd(begun));
    if (isValid(now))
      return true;
    if (now.amount.isZero()) // The exponent does not change a zero.
      return isValid(begun);
    const Amounts &amounts = amounts_[size_t(begun.isNegative)];
    const int magnitude = begun.amount.magnitude();
    for (int digits = now.exponentDigits; digits <= kMostExponentDigits;
         ++digits) {
      const auto room = int(powerOfTen(digits - now.exponentDigits));
      for (bool isNegative : {false, true}) {
        if (now.phase != kExponent && isNegative != now.isExponentNegative)
          continue;
        // The amounts of exponents that lead to powers that are wanted.
        const int one = amounts.leastPower - magnitude,
                  two = amounts.mostPower - magnitude;
        const int first =
            std::max(now.exponent * room, isNegative ? -two : one);
        const int last =
            std::min(now.exponent * room + room - 1, isNegative ? -one : two);
        begun.isExponentNegative = isNegative;
        for (begun.exponent = last; begun.exponent >= first; --begun.exponent)
          if (isValid(begun))
            return true;
      }
    }
    return false;
  }
  static Begun withEnd(Begun begun) {
    begun.phase = kExponentEnd;
    return begun;
  }

  const NumberRules rules_;
  const bool isFree_;
  const Amounts amounts_[2]; ///< Limits of positive and of negative numbers.
};
} // namespace

bool NumberRules::isWithin(const Decimal &number) const {
  if (least && (excludesLeast ? number <= *least : number < *least))
    return false;
  return !most || (excludesMost ? number < *most : number <= *most);
}

bool NumberRules::holds(const Decimal &number) const {
  return (!isInteger || number.isInteger()) && isWithin(number) &&
         std::ranges::all_of(divisors, [&](const Decimal &divisor) {
           return isMultiple(number, divisor);
         });
}

bool NumberRules::isEmpty() const {
  return !Amounts::of(*this, false).isPossible &&
         !Amounts::of(*this, true).isPossible;
}

std::unique_ptr<ScanRun> NumberScanner::run() const {
  return std::make_unique<NumberRun>(rules_);
}

bool NumberScanner::equals(const Scanner &other) const {
  const auto *number = dynamic_cast<const NumberScanner *>(&other);
  return number && number->rules_ == rules_;
}

uint64_t NumberScanner::hash() const {
  auto bits = [](const std::optional<Decimal> &bound) {
    return bound ? uint64_t(bound->trimmed().digits) : 1;
  };
  return bits(rules_.least) * 31 + bits(rules_.most) * 37 +
         uint64_t(rules_.isInteger) + rules_.divisors.size() * 2;
}

} // namespace moert
