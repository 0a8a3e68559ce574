//===- Npy.h - Writes NumPy array files -------------------------*- C++ -*-===//

#ifndef MOE_TOOLS_MOERT_NPY_H
#define MOE_TOOLS_MOERT_NPY_H

#include "runtime/base/OutputFile.h"

#include <span>

namespace moert {

/// Writes a float32 matrix row by row as an NPY file of format version 1.0
/// (numpy.lib.format).
class NpyWriter {
public:
  static StatusOr<NpyWriter> create(OutputTarget target, size_t rows,
                                    size_t cols);
  /// Appends whole rows, in order.
  Status append(std::span<const float> values);
  Status commit() { return file_.commit(); }

private:
  explicit NpyWriter(OutputFile file) : file_(std::move(file)) {}
  OutputFile file_;
};

} // namespace moert

#endif // MOE_TOOLS_MOERT_NPY_H
