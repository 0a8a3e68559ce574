//===- PassedDeadline.h - A deadline that has passed ------------*- C++ -*-===//

#ifndef MOE_TEST_UNIT_PASSEDDEADLINE_H
#define MOE_TEST_UNIT_PASSEDDEADLINE_H

#include "runtime/base/Deadline.h"

namespace moetest {

inline moert::Deadline passedDeadline() {
  const moert::Deadline deadline(std::chrono::milliseconds(1));
  while (!deadline.hasPassed()) {
  }
  return deadline;
}

} // namespace moetest

#endif // MOE_TEST_UNIT_PASSEDDEADLINE_H
