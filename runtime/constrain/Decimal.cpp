#include "runtime/constrain/Decimal.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

namespace moert {

namespace {
/// Larger exponents are treated like this one.
constexpr int kMostExponent = 1'000'000;

constexpr auto kPowers = [] {
  std::array<Decimal::Digits, 39> powers = {1};
  for (size_t i = 1; i < powers.size(); ++i)
    powers[i] = powers[i - 1] * 10;
  return powers;
}();

int lengthOf(Decimal::Digits digits) {
  return int(std::ranges::upper_bound(kPowers, digits) - kPowers.begin());
}

/// The parts of the text of a JSON number.
struct Parts {
  bool isNegative;
  std::string_view whole, fraction;
  int exponent;

  static Parts of(std::string_view text) {
    Parts parts{text.starts_with('-'), {}, {}, 0};
    text.remove_prefix(parts.isNegative);
    if (const size_t e = text.find_first_of("eE"); e != text.npos) {
      const long exponent =
          std::strtol(std::string(text.substr(e + 1)).c_str(), nullptr, 10);
      parts.exponent =
          int(std::clamp<long>(exponent, -kMostExponent, kMostExponent));
      text = text.substr(0, e);
    }
    const size_t point = std::min(text.find('.'), text.size());
    parts.whole = text.substr(0, point);
    parts.fraction = text.substr(std::min(point + 1, text.size()));
    return parts;
  }
};
} // namespace

Decimal::Digits powerOfTen(int exponent) { return kPowers[size_t(exponent)]; }

void Decimal::addDigit(int digit) {
  if (digits >= kPowers[kMostDigits - 1]) {
    hasMore |= digit != 0;
    ++exponent;
    return;
  }
  digits = digits * 10 + Digits(digit);
}

Decimal Decimal::ofText(std::string_view text) {
  const Parts parts = Parts::of(text);
  Decimal number{.isNegative = parts.isNegative};
  for (std::string_view digits : {parts.whole, parts.fraction})
    for (char c : digits)
      number.addDigit(c - '0');
  number.exponent += parts.exponent - int(parts.fraction.size());
  return number;
}

Decimal Decimal::of(const nlohmann::json &number) {
  return ofText(number.dump());
}

int Decimal::magnitude() const { return lengthOf(digits) - 1 + exponent; }

Decimal Decimal::trimmed() const {
  Decimal result = *this;
  for (; result.digits != 0 && result.digits % 10 == 0; ++result.exponent)
    result.digits /= 10;
  if (result.digits == 0)
    result.exponent = 0;
  return result;
}

bool Decimal::isInteger() const { return !hasMore && trimmed().exponent >= 0; }

std::strong_ordering Decimal::compareAmounts(const Decimal &a,
                                             const Decimal &b) {
  if (a.isZero() || b.isZero())
    return !a.isZero() <=> !b.isZero();
  const int lengthA = lengthOf(a.digits), lengthB = lengthOf(b.digits);
  if (const auto order = lengthA + a.exponent <=> lengthB + b.exponent;
      order != 0)
    return order;
  const Digits one = a.digits * powerOfTen(kMostDigits - lengthA),
               two = b.digits * powerOfTen(kMostDigits - lengthB);
  if (one != two)
    return one < two ? std::strong_ordering::less
                     : std::strong_ordering::greater;
  return a.hasMore <=> b.hasMore;
}

std::strong_ordering Decimal::operator<=>(const Decimal &other) const {
  const bool isBelow = isNegative && !isZero();
  if (isBelow != (other.isNegative && !other.isZero()))
    return isBelow ? std::strong_ordering::less : std::strong_ordering::greater;
  return isBelow ? compareAmounts(other, *this) : compareAmounts(*this, other);
}

/// Whether digits * 10^exponent is a multiple. The last digit is not 0.
static bool isMultipleOf(std::string_view whole, std::string_view fraction,
                         int exponent, const Decimal &divisor) {
  // A divisor must have as many decimals as the number, apart from zeros at its
  // end.
  const Decimal by = divisor.trimmed();
  const auto unit = uint64_t(by.digits);
  int zeros = exponent - by.exponent;
  if (zeros < 0)
    return false;
  Decimal::Digits rest = 0;
  for (std::string_view digits : {whole, fraction})
    for (char c : digits)
      rest = (rest * 10 + Decimal::Digits(c - '0')) % unit;
  for (; zeros > 0 && rest != 0; --zeros)
    rest = rest * 10 % unit;
  return rest == 0;
}

bool isMultiple(std::string_view number, const Decimal &divisor) {
  Parts parts = Parts::of(number);
  int exponent = parts.exponent - int(parts.fraction.size());
  auto dropZeros = [&](std::string_view &digits) {
    while (digits.ends_with('0')) {
      digits.remove_suffix(1);
      ++exponent;
    }
  };
  dropZeros(parts.fraction);
  if (parts.fraction.empty())
    dropZeros(parts.whole);
  if (parts.whole.empty() && parts.fraction.empty())
    return true;
  return isMultipleOf(parts.whole, parts.fraction, exponent, divisor);
}

bool isMultiple(const Decimal &number, const Decimal &divisor) {
  if (number.hasMore)
    return false;
  const Decimal trimmed = number.trimmed();
  if (trimmed.isZero())
    return true;
  std::string digits;
  for (Decimal::Digits left = trimmed.digits; left > 0; left /= 10)
    digits.insert(digits.begin(), char('0' + int(left % 10)));
  return isMultipleOf(digits, {}, trimmed.exponent, divisor);
}

} // namespace moert
