//===- Phase.h - The phase that a test's steps belong to --------*- C++ -*-===//

#ifndef MOE_TEST_KERNELS_PHASE_H
#define MOE_TEST_KERNELS_PHASE_H

#include <cstdint>

namespace moek::test {

/// The most tokens and sequences that a step of the present phase may have,
/// which choose a GPU's kernels; 0: as many as the step has.
struct Phase {
  int32_t tokens = 0, sequences = 0;
};
inline Phase &phase() {
  static Phase phase;
  return phase;
}

} // namespace moek::test

#endif // MOE_TEST_KERNELS_PHASE_H
