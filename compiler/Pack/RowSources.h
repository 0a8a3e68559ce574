//===- RowSources.h - Where packed rows come from ---------------*- C++ -*-===//

#ifndef MOE_COMPILER_PACK_ROWSOURCES_H
#define MOE_COMPILER_PACK_ROWSOURCES_H

#include "compiler/Pack/FoldQuery.h"
#include "compiler/Pack/PackedFile.h"
#include "compiler/Pack/Transpose.h"
#include "runtime/base/InputFile.h"

#include <string>
#include <vector>

namespace moec {

/// A model file that is read mostly from front to back.
class ModelFile {
public:
  /// Fails with Io if the file does not exist or its size is not `bytes`. With
  /// `forget`, bytes that were read leave the page cache: a large model would
  /// otherwise displace the file that is being written.
  static moert::StatusOr<ModelFile> open(const std::string &path,
                                         uint64_t bytes, bool forget);

  /// Reads bytes offset ... offset + bytes - 1 to `out`. Several threads may
  /// call it at once.
  moert::Status read(uint64_t offset, uint64_t bytes, uint8_t *out) const;

private:
  ModelFile(moert::InputFile file, bool forget)
      : file_(std::move(file)), forget_(forget) {}

  moert::InputFile file_;
  bool forget_;
};

/// Rows of a tensor in a model file. `view.data` is not used.
class ModelRows : public RowSource {
public:
  ModelRows(const ModelFile &file, uint64_t offset, moek::WeightView view)
      : file_(file), offset_(offset), view_(view) {}
  moert::Status read(int64_t matrix, int64_t first, int64_t count,
                     uint8_t *out) const override;

private:
  const ModelFile &file_;
  uint64_t offset_;
  moek::WeightView view_;
};

/// Rows of W_UK^T W_Q. `fold` must have passed check().
class FoldedRows : public RowSource {
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
class TransposedRows : public RowSource {
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

/// Concatenated rows of several weights, as matrices of `rows` x `cols`. Rows
/// of other formats are converted.
class StackedRows : public RowSource {
public:
  StackedRows(int64_t rows, int64_t cols, moek::Format format)
      : perMatrix_(rows), cols_(cols), format_(format) {}

  /// Appends the rows of `source`, `outer` matrices of `rows` rows. Fails with
  /// Unsupported for a format that cannot be converted.
  moert::Status add(std::unique_ptr<RowSource> source, int64_t outer,
                    int64_t rows, moek::Format format);

  moert::Status read(int64_t matrix, int64_t first, int64_t count,
                     uint8_t *out) const override;

private:
  struct Part {
    std::unique_ptr<RowSource> source;
    int64_t first, end; ///< Range in the concatenated rows.
    int64_t perMatrix;  ///< Rows of one matrix of `source`.
    moek::Format format;
  };

  moert::Status readPart(const Part &part, int64_t row, int64_t count,
                         uint8_t *out) const;

  int64_t perMatrix_, cols_;
  moek::Format format_; ///< Format of the result.
  std::vector<Part> parts_;
};

} // namespace moec

#endif // MOE_COMPILER_PACK_ROWSOURCES_H
