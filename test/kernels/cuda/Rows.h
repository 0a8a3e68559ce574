//===- Rows.h - The rows of cuda_bench and cuda_clock -----------*- C++ -*-===//
//
// Names and workloads, so that times of a GPU and of the clock stand side by
// side.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_KERNELS_CUDA_ROWS_H
#define MOE_TEST_KERNELS_CUDA_ROWS_H

#include "test/kernels/cuda/Workload.h"

#include <functional>

namespace moek::test {

struct Row {
  std::string name;
  int64_t copies = 1; ///< With so many copies, weights are read from memory.
  std::function<Workload(Workbench &, int64_t copies)> make;
};

/// All rows, in the order in which cuda_bench prints them.
std::vector<Row> benchRows();

} // namespace moek::test

#endif // MOE_TEST_KERNELS_CUDA_ROWS_H
