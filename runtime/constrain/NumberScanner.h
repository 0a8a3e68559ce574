//===- NumberScanner.h - Reads JSON numbers within bounds -------*- C++ -*-===//

#ifndef MOE_RUNTIME_CONSTRAIN_NUMBERSCANNER_H
#define MOE_RUNTIME_CONSTRAIN_NUMBERSCANNER_H

#include "runtime/constrain/Scanner.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

namespace moert {

/// A number of JSON. Integers up to 2^64 are exact; one with a fraction or an
/// exponent is the nearest double, as in most programs that read JSON.
struct JsonNumber {
  long double value;
  bool isWritten;         ///< As an integer: without fraction and exponent.
  bool isRounded = false; ///< It has more digits than are kept.

  static JsonNumber of(const nlohmann::json &number);
  bool isInteger() const;
};

/// What a number must be.
struct NumberRules {
  bool isInteger = false;
  std::optional<long double> least = {}, most = {};
  bool excludesLeast = false, excludesMost = false;
  std::vector<JsonNumber> divisors = {}; ///< It is a multiple of each.

  bool holds(const JsonNumber &number) const;
  /// Whether bounds exclude every number.
  bool isEmpty() const;
};

/// Whether a number is a multiple of another one, above 0. As in Python's
/// jsonschema, the quotient with a fraction is that of doubles. True for a
/// rounded number and an integer: isWrittenMultiple() is exact.
bool isMultiple(const JsonNumber &number, const JsonNumber &divisor);

/// Whether the text of a number is a multiple of an integer, if it is one
/// itself, of any length. True for other numbers.
bool isWrittenMultiple(std::string_view number, const JsonNumber &divisor);

/// Reads numbers with exponents of up to three digits. A text that no more
/// digits can make valid ends early, so of the spellings with an exponent those
/// are left out that programs do not write: 500e-1, or 1.5e1 as an integer.
class NumberScanner final : public Scanner {
public:
  static std::shared_ptr<const NumberScanner> create(NumberRules rules) {
    return std::shared_ptr<const NumberScanner>(
        new NumberScanner(std::move(rules)));
  }
  std::unique_ptr<ScanRun> run() const override;
  bool equals(const Scanner &other) const override;
  uint64_t hash() const override;

private:
  explicit NumberScanner(NumberRules rules) : rules_(std::move(rules)) {}
  NumberRules rules_;
};

} // namespace moert

#endif // MOE_RUNTIME_CONSTRAIN_NUMBERSCANNER_H
