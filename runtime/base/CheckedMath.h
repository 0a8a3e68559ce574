//===- CheckedMath.h - Overflow-checked sizes -------------------*- C++ -*-===//
//
// Use Checked for arithmetic on numbers from a file. A Checked value remembers
// whether any step of its computation overflowed, so a formula can be written
// in one piece and tested once, at its end.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_BASE_CHECKEDMATH_H
#define MOE_RUNTIME_BASE_CHECKEDMATH_H

#include <cstdint>

namespace moert {

class Checked {
public:
  constexpr Checked(uint64_t value) : value_(value) {}

  constexpr bool valid() const { return !overflow_; }
  /// The result; meaningful only when valid().
  constexpr uint64_t value() const { return value_; }

  friend constexpr Checked operator+(Checked a, Checked b) {
    Checked r(0);
    r.overflow_ = __builtin_add_overflow(a.value_, b.value_, &r.value_) ||
                  a.overflow_ || b.overflow_;
    return r;
  }
  friend constexpr Checked operator*(Checked a, Checked b) {
    Checked r(0);
    r.overflow_ = __builtin_mul_overflow(a.value_, b.value_, &r.value_) ||
                  a.overflow_ || b.overflow_;
    return r;
  }
  /// Rounds up to a multiple of `unit`, a power of two.
  constexpr Checked alignedTo(uint64_t unit) const {
    Checked r = *this + Checked(unit - 1);
    r.value_ &= ~(unit - 1);
    return r;
  }

private:
  uint64_t value_;
  bool overflow_ = false;
};

/// Rounds up to a multiple of `unit`, a power of two; for numbers that are not
/// from a file.
constexpr uint64_t alignUp(uint64_t value, uint64_t unit) {
  return (value + unit - 1) & ~(unit - 1);
}

} // namespace moert

#endif // MOE_RUNTIME_BASE_CHECKEDMATH_H
