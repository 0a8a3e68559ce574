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

/// A model file that is read from front to back, more or less.
class ModelFile {
public:
  /// Fails with Io if it is not there or has another size than `bytes`. With
  /// `forget`, what was read leaves the page cache, for models so large that
  /// they would push out the file being written.
  static moert::StatusOr<ModelFile> open(const std::string &path,
                                         uint64_t bytes, bool forget);

  /// Bytes offset ... offset + bytes - 1 to `out`. Many threads may.
  moert::Status read(uint64_t offset, uint64_t bytes, uint8_t *out) const;

private:
  ModelFile(moert::InputFile file, bool forget)
      : file_(std::move(file)), forget_(forget) {}

  moert::InputFile file_;
  bool forget_;
};

/// Rows as they are in a model file; `view.data` is not used.
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

/// Rows of a product; `fold` passed check().
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

/// Rows that are columns of a weight; `transpose` passed check().
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

/// Rows of several weights, all of one after all of another, in matrices of
/// `rows` x `cols`; those of other formats converted.
class StackedRows : public RowSource {
public:
  StackedRows(int64_t rows, int64_t cols, moek::Format format)
      : perMatrix_(rows), cols_(cols), format_(format) {}

  /// The next `outer` matrices of `rows` each. Fails with Unsupported for a
  /// format that cannot be converted.
  moert::Status add(std::unique_ptr<RowSource> source, int64_t outer,
                    int64_t rows, moek::Format format);

  moert::Status read(int64_t matrix, int64_t first, int64_t count,
                     uint8_t *out) const override;

private:
  struct Part {
    std::unique_ptr<RowSource> source;
    int64_t first, end; ///< Of all rows.
    int64_t perMatrix;  ///< Of its own.
    moek::Format format;
  };

  moert::Status readPart(const Part &part, int64_t row, int64_t count,
                         uint8_t *out) const;

  int64_t perMatrix_, cols_;
  moek::Format format_; ///< Of the result.
  std::vector<Part> parts_;
};

} // namespace moec

#endif // MOE_COMPILER_PACK_ROWSOURCES_H
