#include "runtime/constrain/NumberScanner.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <string>

namespace moert {

JsonNumber JsonNumber::of(const nlohmann::json &number) {
  if (number.is_number_unsigned())
    return {static_cast<long double>(number.get<uint64_t>()), true};
  if (number.is_number_integer())
    return {static_cast<long double>(number.get<int64_t>()), true};
  return {static_cast<long double>(number.get<double>()), false};
}

bool JsonNumber::isInteger() const {
  return isWritten || (std::isfinite(value) && std::trunc(value) == value);
}

bool isWrittenMultiple(std::string_view number, const JsonNumber &divisor) {
  if (!divisor.isWritten || divisor.value > 1e18L)
    return true;
  const auto by = uint64_t(divisor.value);
  uint64_t rest = 0;
  for (char c : number) {
    if (c != '-' && (c < '0' || c > '9'))
      return true;
    if (c != '-')
      rest = uint64_t(
          (static_cast<unsigned __int128>(rest) * 10 + uint64_t(c - '0')) % by);
  }
  return rest == 0;
}

bool isMultiple(const JsonNumber &number, const JsonNumber &divisor) {
  if (divisor.isWritten && number.isRounded)
    return true;
  if (divisor.isWritten)
    return std::fmod(number.value, divisor.value) == 0;
  const double quotient = double(number.value) / double(divisor.value);
  // What overflows is divided exactly.
  if (!std::isfinite(quotient))
    return std::isfinite(number.value) &&
           std::fmod(double(number.value), double(divisor.value)) == 0;
  return std::trunc(quotient) == quotient;
}

bool NumberRules::holds(const JsonNumber &number) const {
  const long double value = number.value;
  if (isInteger && !number.isInteger())
    return false;
  if (least && (excludesLeast ? value <= *least : value < *least))
    return false;
  if (most && (excludesMost ? value >= *most : value > *most))
    return false;
  return std::ranges::all_of(divisors, [&](const JsonNumber &divisor) {
    return isMultiple(number, divisor);
  });
}

bool NumberRules::isEmpty() const {
  if (!least || !most)
    return false;
  if (*least > *most || (*least == *most && (excludesLeast || excludesMost)))
    return true;
  if (!isInteger)
    return false;
  long double first = std::ceil(*least), last = std::floor(*most);
  first += excludesLeast && first == *least;
  last -= excludesMost && last == *most;
  return first > last;
}

namespace {
/// What comes next in a number.
enum Phase : uint32_t {
  kSign,          ///< Or a digit: nothing was read.
  kFirst,         ///< A digit, after the sign.
  kZero,          ///< After a first 0: no digit.
  kWhole,         ///< After another digit of the integer part.
  kPoint,         ///< A digit, after the point.
  kFraction,      ///< After a digit of the fraction.
  kExponent,      ///< A sign or a digit, after the e.
  kExponentDigit, ///< A digit, after the exponent's sign.
  kExponentEnd,   ///< After a digit of the exponent.
};

/// Digits after the point, where a number is within bounds.
constexpr int kMostFraction = 40;
constexpr int kMostExponentDigits = 3;
/// Powers of ten beyond which doubles are zero or infinite.
constexpr int kLeastPower = -345, kMostPower = 310;
/// Room for rounding of the powers of ten that are not whole, and of quotients
/// of doubles.
constexpr long double kSlack = 1e-18L, kQuotientSlack = 2.3e-16L;

/// The smallest number that is rounded to a double, or the largest one.
long double roundedFrom(long double bound, double direction) {
  const auto value = double(bound);
  const auto next = std::nextafter(value, direction);
  return std::isfinite(next) && value == bound
             ? (bound + static_cast<long double>(next)) / 2
             : bound;
}

/// A number so far. `digits` are its first significant digits, and its value
/// is digits * 10^(scale + exponent).
struct Begun {
  uint64_t digits = 0;
  int scale = 0;
  Phase phase = kSign;
  bool isNegative = false, isExponentNegative = false;
  int exponent = 0, exponentDigits = 0;

  static Begun unpack(const ScanState &state) {
    const auto bits = uint32_t(state.count);
    Begun begun;
    begun.digits = uint64_t(uint32_t(state.at)) << 32 | state.inside;
    begun.phase = Phase(bits & 15);
    begun.isNegative = bits >> 4 & 1;
    begun.isExponentNegative = bits >> 5 & 1;
    begun.exponentDigits = int(bits >> 6 & 3);
    begun.exponent = int(bits >> 8 & 1023);
    begun.scale = int(bits >> 18) - 8192;
    return begun;
  }
  ScanState pack() const {
    return {int32_t(digits >> 32), uint32_t(digits),
            int32_t(uint32_t(phase) | uint32_t(isNegative) << 4 |
                    uint32_t(isExponentNegative) << 5 |
                    uint32_t(exponentDigits) << 6 | uint32_t(exponent) << 8 |
                    uint32_t(scale + 8192) << 18)};
  }

  bool isWhole() const { return phase == kZero || phase == kWhole; }
  bool canEnd() const {
    return isWhole() || phase == kFraction || phase == kExponentEnd;
  }

  void addDigit(int digit) {
    const bool isKept = digits < 100'000'000'000'000'000u; // 10^17
    if (isKept)
      digits = digits * 10 + uint64_t(digit);
    if (phase == kPoint || phase == kFraction)
      scale -= isKept && scale > -8000;
    else
      scale += !isKept && scale < 8000;
  }

  /// Whether more digits of a fraction would not change the number.
  bool isExact() const {
    return phase == kFraction &&
           (digits >= 100'000'000'000'000'000u || scale <= -kMostFraction);
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

  JsonNumber number() const {
    if (isWhole() && scale == 0) {
      const auto value = static_cast<long double>(digits);
      return {isNegative ? -value : value, true};
    }
    const int power = scale + (isExponentNegative ? -exponent : exponent);
    const std::string text =
        std::to_string(digits) + "e" + std::to_string(power);
    const long double value = isWhole() ? std::strtold(text.c_str(), nullptr)
                                        : std::strtod(text.c_str(), nullptr);
    return {isNegative ? -value : value, isWhole(), isWhole()};
  }
};

/// Which numbers of one sign are wanted, by their amount.
struct Amounts {
  long double least = 0, most = INFINITY, step = 0; ///< 0: any number.
  bool excludesMost = false;
  bool hasFractions = false; ///< Of doubles: it is a multiple of one.

  static Amounts of(const NumberRules &rules, bool isNegative) {
    Amounts amounts;
    const auto &low = isNegative ? rules.most : rules.least;
    const auto &high = isNegative ? rules.least : rules.most;
    const long double sign = isNegative ? -1 : 1;
    if (low)
      amounts.least = std::max(0.0L, *low * sign);
    if (high)
      amounts.most = *high * sign;
    amounts.excludesMost =
        isNegative ? rules.excludesLeast : rules.excludesMost;
    if (rules.isInteger)
      amounts.step = 1;
    for (const JsonNumber &divisor : rules.divisors) {
      amounts.step = std::max(amounts.step, divisor.value);
      amounts.hasFractions |= !divisor.isWritten;
    }
    return amounts;
  }

  bool isWhole() const { return step > 0 && step == std::floor(step); }

  /// Whether there is one from `from` to, but without, `to`. With `slack`, they
  /// are not exact, and numbers are going to be rounded to doubles.
  bool anyBetween(long double from, long double to, long double slack) const {
    const bool isRounded = slack > 0;
    const long double first =
        std::max(from * (1 - slack), isRounded ? roundedFrom(least, 0) : least);
    const long double last = std::min(
        to * (1 + slack), isRounded ? roundedFrom(most, INFINITY) : most);
    if (first > last)
      return false;
    if (step == 0 || !std::isfinite(last))
      return true;
    const long double room = isWhole() ? slack : kQuotientSlack;
    const long double multiple = std::ceil(first / step * (1 - room)) * step;
    return multiple <= last * (1 + room) && (multiple < to || room > 0);
  }
};

class NumberRun final : public ScanRun {
public:
  explicit NumberRun(const NumberRules &rules)
      : rules_(rules),
        isFree_(!rules.least && !rules.most && rules.divisors.empty()),
        amounts_{Amounts::of(rules, false), Amounts::of(rules, true)} {}

  ScanState start() const override { return Begun().pack(); }

  bool next(ScanState &state, uint8_t byte) override {
    Begun begun = Begun::unpack(state);
    // Within bounds, a fraction has no digits that do not count: it would not
    // have to end.
    const bool isOver =
        !isFree_ && begun.isExact() && byte >= '0' && byte <= '9';
    if (isOver || !begun.take(char(byte)) || !canBecomeValid(begun))
      return false;
    state = begun.pack();
    return true;
  }
  bool canEnd(const ScanState &state) override {
    const Begun begun = Begun::unpack(state);
    return begun.canEnd() && rules_.holds(begun.number());
  }
  bool goesOn(const ScanState &state) override {
    const Begun begun = Begun::unpack(state);
    for (char c : {'-', '+', '.', 'e', '0', '1', '2', '3', '4', '5', '6', '7',
                   '8', '9'}) {
      Begun more = begun;
      if (more.take(c) && canBecomeValid(more))
        return true;
    }
    return false;
  }

private:
  bool canBecomeValid(const Begun &begun) const {
    if (begun.phase >= kExponent)
      return exponentCanBecomeValid(begun);
    const Amounts &amounts = amounts_[size_t(begun.isNegative)];
    if (amounts.most < 0 || (amounts.most == 0 && amounts.excludesMost))
      return false;
    if (isFree_ && !rules_.isInteger)
      return true;
    if (begun.phase <= kFirst)
      return amounts.anyBetween(0, INFINITY, 0);
    if (begun.isExact())
      return rules_.holds(begun.number()) ||
             (canBeScientific(begun, amounts) && holdsWithExponent(begun));
    return canGoOn(begun, amounts) || canBeScientific(begun, amounts);
  }

  /// Whether more digits lead to a number that is wanted. An exponent could
  /// mend what has become too large or too exact; but a model that has written
  /// 500 where 100 is the most would go on with zeros for ever.
  static bool canGoOn(const Begun &begun, const Amounts &amounts) {
    const auto digits = static_cast<long double>(begun.digits);
    if (begun.phase != kWhole) {
      if (amounts.isWhole())
        return isWholeAmount(begun, amounts);
      const long double unit = std::pow(10.0L, begun.scale);
      return amounts.anyBetween(digits * unit, (digits + 1) * unit, kSlack);
    }
    if (!std::isfinite(amounts.most))
      return true;
    for (int power = begun.scale; power <= kMostPower; ++power) {
      const long double unit = std::pow(10.0L, power);
      if (digits * unit > amounts.most)
        return false;
      if (amounts.anyBetween(digits * unit, (digits + 1) * unit, 0))
        return true;
    }
    return false;
  }

  /// Whether the digits after the point are zeros, after a number that is
  /// wanted.
  static bool isWholeAmount(const Begun &begun, const Amounts &amounts) {
    uint64_t whole = begun.digits;
    for (int i = begun.scale; i < 0 && whole != 0; ++i, whole /= 10)
      if (whole % 10 != 0)
        return false;
    const auto amount = static_cast<long double>(whole);
    return amounts.anyBetween(amount, amount + 1, 0) &&
           std::fmod(amount, amounts.step) == 0;
  }

  /// Whether an exponent can follow as programs write it: after a single digit,
  /// or one with a fraction. Not for integers: a model that has written 9.99
  /// would have to make it another number.
  static bool canBeScientific(const Begun &begun, const Amounts &amounts) {
    if (begun.digits == 0 || (amounts.isWhole() && !amounts.hasFractions))
      return false;
    const auto digits = static_cast<long double>(begun.digits);
    const int length = int(std::floor(std::log10(digits))) + 1;
    if (length + begun.scale != 1)
      return false;
    for (int power = kLeastPower; power <= kMostPower; ++power) {
      const long double unit = std::pow(10.0L, power - length);
      if (amounts.anyBetween(digits * unit, (digits + 1) * unit, kSlack))
        return true;
    }
    return false;
  }

  /// Tries all exponents.
  bool holdsWithExponent(Begun begun) const {
    begun.phase = kExponentEnd;
    for (int power = kLeastPower; power <= kMostPower; ++power) {
      begun.isExponentNegative = power < 0;
      begun.exponent = std::abs(power);
      if (rules_.holds(begun.number()))
        return true;
    }
    return false;
  }

  /// Tries the exponents that more digits can make.
  bool exponentCanBecomeValid(const Begun &begun) const {
    if (isFree_ && !rules_.isInteger)
      return true;
    if (begun.canEnd() && rules_.holds(begun.number()))
      return true;
    for (char c :
         {'-', '+', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'}) {
      Begun more = begun;
      if (more.take(c) && exponentCanBecomeValid(more))
        return true;
    }
    return false;
  }

  const NumberRules rules_;
  const bool isFree_;
  const Amounts amounts_[2]; ///< Of positive and negative numbers.
};
} // namespace

std::unique_ptr<ScanRun> NumberScanner::run() const {
  return std::make_unique<NumberRun>(rules_);
}

bool NumberScanner::equals(const Scanner &other) const {
  const auto *number = dynamic_cast<const NumberScanner *>(&other);
  if (!number)
    return false;
  const NumberRules &a = rules_, &b = number->rules_;
  return a.isInteger == b.isInteger && a.least == b.least && a.most == b.most &&
         a.excludesLeast == b.excludesLeast &&
         a.excludesMost == b.excludesMost &&
         std::ranges::equal(a.divisors, b.divisors,
                            [](const JsonNumber &x, const JsonNumber &y) {
                              return x.value == y.value &&
                                     x.isWritten == y.isWritten;
                            });
}

uint64_t NumberScanner::hash() const {
  auto bits = [](const std::optional<long double> &bound) {
    return bound ? std::bit_cast<uint64_t>(double(*bound)) : 1;
  };
  return bits(rules_.least) * 31 + bits(rules_.most) * 37 +
         uint64_t(rules_.isInteger) + rules_.divisors.size() * 2;
}

} // namespace moert
