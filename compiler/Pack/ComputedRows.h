//===- ComputedRows.h - Rows that packing computes --------------*- C++ -*-===//

#ifndef MOE_COMPILER_PACK_COMPUTEDROWS_H
#define MOE_COMPILER_PACK_COMPUTEDROWS_H

#include "compiler/Pack/FoldQuery.h"
#include "compiler/Pack/Transpose.h"
#include "runtime/pack/PackedFile.h"

namespace moec {

/// Rows of W_UK^T W_Q. `fold` must have passed check().
class FoldedRows : public moert::RowSource {
public:
  explicit FoldedRows(const FoldQuery &fold) : fold_(fold) {}
  moert::Status read(int64_t, int64_t first, int64_t count,
                     uint8_t *out) const override {
    foldRows(fold_, first, count, out);
    return moert::Status::ok();
  }

private:
  FoldQuery fold_;
};

/// Rows of a transposed weight. `transpose` must have passed check().
class TransposedRows : public moert::RowSource {
public:
  explicit TransposedRows(const Transpose &transpose) : transpose_(transpose) {}
  moert::Status read(int64_t matrix, int64_t first, int64_t count,
                     uint8_t *out) const override {
    transposeRows(transpose_, matrix, first, count, out);
    return moert::Status::ok();
  }

private:
  Transpose transpose_;
};

} // namespace moec

#endif // MOE_COMPILER_PACK_COMPUTEDROWS_H
