//===- WeightRows.h - Bytes of the weights that packing writes --*- C++ -*-===//

#ifndef MOE_COMPILER_PACK_WEIGHTROWS_H
#define MOE_COMPILER_PACK_WEIGHTROWS_H

#include "compiler/Pack/ComputedRows.h"
#include "dialects/plan/Plan.h"
#include "runtime/base/MappedFile.h"
#include "runtime/pack/RowSources.h"

#include <map>

namespace moec {

/// Makes the rows of weights in model files, and of those that are computed
/// from them. Rows stay valid as long as this.
class WeightRows {
public:
  /// ModelFile::open() explains `forget`.
  explicit WeightRows(bool forget) : forget_(forget) {}
  WeightRows(const WeightRows &) = delete;

  /// Returns the rows of a plan.weight in a model file or of a plan.derived.
  /// Fails with Io as ModelFile::open() does, with Unsupported for formats that
  /// cannot be converted, and with Internal for a source without a producer.
  moert::StatusOr<std::unique_ptr<moert::RowSource>> of(mlir::Value weight);

  /// Returns a view of a plan.weight in a mapped model file. Fails as of()
  /// does.
  moert::StatusOr<moek::WeightView> mapped(mlir::Value weight);

private:
  moert::StatusOr<const moert::ModelFile *> open(mlir::plan::FileOp file);

  bool forget_;
  std::map<std::string, moert::ModelFile> opened_;
  std::map<std::string, moert::MappedFile> mapped_;
};

} // namespace moec

#endif // MOE_COMPILER_PACK_WEIGHTROWS_H
