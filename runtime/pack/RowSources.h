//===- RowSources.h - Where packed rows come from ---------------*- C++ -*-===//

#ifndef MOE_RUNTIME_PACK_ROWSOURCES_H
#define MOE_RUNTIME_PACK_ROWSOURCES_H

#include "kernels/Types.h"
#include "runtime/base/InputFile.h"
#include "runtime/base/ReadHasher.h"
#include "runtime/pack/PackedFile.h"

#include <memory>
#include <string>
#include <vector>

namespace moert {

/// A model file that is read mostly from front to back.
class ModelFile {
public:
  /// Fails with Io if the file does not exist or its size is not `bytes`. With
  /// `forget`, bytes that were used leave the page cache: a large model would
  /// otherwise displace what is being made of it.
  static StatusOr<ModelFile> open(const std::string &path, uint64_t bytes,
                                  bool forget);
  /// Reads from an opened file, which must outlive this.
  ModelFile(const InputFile &file, bool forget);

  /// From now on, all bytes that are read are added to `hasher`, which must
  /// outlive this object.
  void hashTo(ReadHasher &hasher) { hasher_ = &hasher; }

  /// Reads bytes offset ... offset + bytes - 1 to `out`. Several threads may
  /// call it at once, and forget().
  Status read(uint64_t offset, uint64_t bytes, uint8_t *out) const;
  /// With `forget`, these bytes leave the page cache; with 0 bytes all from
  /// `offset` on, also parts of large pages that other calls left there.
  void forget(uint64_t offset, uint64_t bytes) const;

private:
  /// May be a file that another object owns.
  std::shared_ptr<const InputFile> file_;
  bool forget_;
  ReadHasher *hasher_ = nullptr;
};

/// Rows of a tensor in a model file. `view.data` is not used.
class ModelRows : public RowSource {
public:
  ModelRows(const ModelFile &file, uint64_t offset, moek::WeightView view)
      : file_(file), offset_(offset), view_(view) {}
  Status read(int64_t matrix, int64_t first, int64_t count,
              uint8_t *out) const override;
  void forget(int64_t matrix, int64_t first, int64_t count) const override;

private:
  const ModelFile &file_;
  uint64_t offset_;
  moek::WeightView view_;
};

/// Concatenated rows of several weights, as matrices of `rows` x `cols`. Rows
/// of other formats are converted.
class StackedRows : public RowSource {
public:
  StackedRows(int64_t rows, int64_t cols, moek::Format format)
      : perMatrix_(rows), cols_(cols), format_(format) {}

  /// Appends the rows of `source`, `outer` matrices of `rows` rows. Fails with
  /// Unsupported for a format that cannot be converted.
  Status add(std::unique_ptr<RowSource> source, int64_t outer, int64_t rows,
             moek::Format format);

  Status read(int64_t matrix, int64_t first, int64_t count,
              uint8_t *out) const override;
  void forget(int64_t matrix, int64_t first, int64_t count) const override;

private:
  struct Part {
    std::unique_ptr<RowSource> source;
    int64_t first, end; ///< Range in the concatenated rows.
    int64_t perMatrix;  ///< Rows of one matrix of `source`.
    moek::Format format;
  };

  /// Calls `visit(part, row, count)`, which returns a Status, for the rows of
  /// each matrix of each part, until one fails. `row` counts from the part's
  /// first.
  template <class Visit>
  Status forEachPart(int64_t matrix, int64_t first, int64_t count,
                     Visit visit) const;
  Status readPart(const Part &part, int64_t row, int64_t count,
                  uint8_t *out) const;

  int64_t perMatrix_, cols_;
  moek::Format format_; ///< Format of the result.
  std::vector<Part> parts_;
};

} // namespace moert

#endif // MOE_RUNTIME_PACK_ROWSOURCES_H
