//===- Draw.h - Random tensors, the same on every machine -------*- C++ -*-===//
//
// The bytes of a tensor follow from a seed, the tensor's name and a
// distribution. Everything is drawn in integers: a number is a fixed-point sum
// of random integers that is converted to a float at the end, with one
// rounding. No math library, no fused multiply-add and no distribution of the
// standard library takes part, as these differ between machines.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_SUPPORT_DRAW_H
#define MOE_TEST_SUPPORT_DRAW_H

#include "runtime/base/Status.h"
#include "test/support/GgufBuilder.h"

namespace moetest {

/// The distribution from which the elements of a tensor are drawn.
struct Distribution {
  enum Kind {
    /// numbers: mean, standard deviation. No value is more than 4.9 deviations
    /// from the mean.
    Normal,
    /// numbers: g. Normal with mean 0 and deviation g / sqrt(row length).
    Gain,
    Uniform, ///< numbers: the least and the greatest value.
    Values,  ///< numbers: the elements in order.
    Choices, ///< numbers: n. Each row is distinct integers below n.
    /// numbers: least and greatest scale byte of a block of 4-bit floats.
    Codes
  };
  Kind kind;
  std::vector<double> numbers;
};

/// The bytes of a tensor of this name. A tensor's draw does not depend on the
/// other tensors of its model.
moert::StatusOr<Bytes> draw(uint64_t seed, std::string_view name,
                            moek::Format format,
                            const std::vector<uint64_t> &shape,
                            const Distribution &distribution);

} // namespace moetest

#endif // MOE_TEST_SUPPORT_DRAW_H
