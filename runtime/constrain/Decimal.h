//===- Decimal.h - Numbers as they are written ------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_CONSTRAIN_DECIMAL_H
#define MOE_RUNTIME_CONSTRAIN_DECIMAL_H

#include <compare>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

namespace moert {

/// A decimal number of up to 20 significant digits, which is enough for every
/// integer up to 2^64 and for the shortest text of every double. It is compared
/// exactly.
struct Decimal {
  using Digits = unsigned __int128;
  static constexpr int kMostDigits = 20;

  bool isNegative = false;
  Digits digits = 0;
  int exponent = 0; ///< The number is digits * 10^exponent.
  /// Further digits were left out, of which some are not 0: the amount is
  /// larger, but not by one unit of the last digit that is kept.
  bool hasMore = false;

  /// The number of a JSON text without white space.
  static Decimal ofText(std::string_view text);
  /// The number that a JSON value is written as: of one with a fraction, the
  /// shortest text that is read as the same double.
  static Decimal of(const nlohmann::json &number);

  void addDigit(int digit);
  bool isZero() const { return digits == 0; }
  bool isInteger() const; ///< Always false with hasMore.
  /// The exponent of ten of the first digit: 0 for 1 to 9. Of no use for zero.
  int magnitude() const;
  /// Returns the number without zeros at the end.
  Decimal trimmed() const;
  /// Compares the amounts, of any sign.
  static std::strong_ordering compareAmounts(const Decimal &a,
                                             const Decimal &b);

  std::strong_ordering operator<=>(const Decimal &other) const;
  bool operator==(const Decimal &other) const {
    return (*this <=> other) == std::strong_ordering::equal;
  }
};

Decimal::Digits powerOfTen(int exponent); ///< For exponents 0 to 38.

/// Whether the number of a JSON text, of any length, is a multiple of a divisor
/// above 0 with fewer than 2^64 units of its last digit.
bool isMultiple(std::string_view number, const Decimal &divisor);
/// Whether a number is a multiple of the divisor; false if it has more digits.
bool isMultiple(const Decimal &number, const Decimal &divisor);

} // namespace moert

#endif // MOE_RUNTIME_CONSTRAIN_DECIMAL_H
