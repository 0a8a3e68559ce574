#include "test/softcpu/VectorTest.h"

#include <cmath>

namespace moek::test {

namespace {
template <class T> bool compare(T a, T b, unsigned predicate) {
  switch (predicate & 7) {
  case 0:
    return a == b;
  case 1:
    return a < b;
  case 2:
    return a <= b;
  case 3:
    return false;
  case 4:
    return a != b;
  case 5:
    return a >= b;
  case 6:
    return a > b;
  default:
    return true;
  }
}

/// The table of predicates, without signalling.
template <class T> bool compareFloats(T a, T b, unsigned predicate) {
  bool unordered = std::isnan(a) || std::isnan(b);
  switch (predicate & 15) {
  case 0: // EQ_OQ
    return !unordered && a == b;
  case 1: // LT_OS
    return !unordered && a < b;
  case 2: // LE_OS
    return !unordered && a <= b;
  case 3: // UNORD_Q
    return unordered;
  case 4: // NEQ_UQ
    return unordered || a != b;
  case 5: // NLT_US
    return unordered || !(a < b);
  case 6: // NLE_US
    return unordered || !(a <= b);
  case 7: // ORD_Q
    return !unordered;
  case 8: // EQ_UQ
    return unordered || a == b;
  case 9: // NGE_US
    return unordered || !(a >= b);
  case 10: // NGT_US
    return unordered || !(a > b);
  case 11: // FALSE_OQ
    return false;
  case 12: // NEQ_OQ
    return !unordered && a != b;
  case 13: // GE_OS
    return !unordered && a >= b;
  case 14: // GT_OS
    return !unordered && a > b;
  default: // TRUE_UQ
    return true;
  }
}
} // namespace

// clang-format off
#define COMPARISONS_OF(X, letter, forms, signed_)                              \
  X(MASK_I, "vpcmp" letter, ALL | forms, SAME, signed_, bool, compare(a[i], b[i], imm)) \
  X(MASK_I, "vpcmpu" letter, ALL | forms, SAME, u##signed_, bool, compare(a[i], b[i], imm)) \
  X(MASK, "vpcmpeq" letter, ALL | forms, SAME, signed_, bool, a[i] == b[i])    \
  X(MASK, "vpcmpgt" letter, ALL | forms, SAME, signed_, bool, a[i] > b[i])     \
  X(MASK, "vptestm" letter, ALL | forms, SAME, signed_, bool, (a[i] & b[i]) != 0) \
  X(MASK, "vptestnm" letter, ALL | forms, SAME, signed_, bool, (a[i] & b[i]) == 0)

#define COMPARISONS(X)                                                         \
  COMPARISONS_OF(X, "b", 0, int8_t)                                            \
  COMPARISONS_OF(X, "w", 0, int16_t)                                           \
  COMPARISONS_OF(X, "d", TO16, int32_t)                                        \
  COMPARISONS_OF(X, "q", TO8, int64_t)                                         \
  X(MASK_I, "vcmpps", ALL | TO16, SAME, float, bool, compareFloats(a[i], b[i], imm)) \
  X(MASK_I, "vcmppd", ALL | TO8, SAME, double, bool, compareFloats(a[i], b[i], imm)) \
  X(MASK_I, "vcmpss", MASKED | XMM | SCALAR, ONE_4, float, bool, compareFloats(a[i], b[i], imm)) \
  X(MASK_I, "vcmpsd", MASKED | XMM | SCALAR, ONE_8, double, bool, compareFloats(a[i], b[i], imm))
// clang-format on

MOE_VECTOR_CASES(Comparison, COMPARISONS);

} // namespace moek::test
