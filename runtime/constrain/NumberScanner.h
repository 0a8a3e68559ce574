//===- NumberScanner.h - Reads JSON numbers within bounds -------*- C++ -*-===//

#ifndef MOE_RUNTIME_CONSTRAIN_NUMBERSCANNER_H
#define MOE_RUNTIME_CONSTRAIN_NUMBERSCANNER_H

#include "runtime/constrain/Decimal.h"
#include "runtime/constrain/Scanner.h"

#include <optional>
#include <vector>

namespace moert {

/// What a number must be, exactly as it is written: 0.30 is a multiple of 0.1,
/// and 18446744073709551617 is not within 18446744073709551616.
struct NumberRules {
  /// Whether the value must be an integer, as 15.0 and 1.5e1 are.
  bool isInteger = false;
  std::optional<Decimal> least = {}, most = {};
  bool excludesLeast = false, excludesMost = false;
  /// The number must be a multiple of each of these.
  std::vector<Decimal> divisors = {};

  bool isWithin(const Decimal &number) const;
  bool holds(const Decimal &number) const;
  /// Whether no number holds.
  bool isEmpty() const;
  bool operator==(const NumberRules &) const = default;
};

/// Reads numbers with exponents of up to three digits. A text that no more
/// digits can make valid ends early, so of the spellings with an exponent those
/// are left out that programs do not write: with several digits before the
/// point that are too large without it, such as 500e-1 where 100 is the most.
/// Where there are rules, numbers with a fraction or an exponent have up to 20
/// significant digits, and those with an exponent are within what doubles
/// reach.
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
