//===- RandomWeights.cpp - Fills a plan's blank weights file --------------===//
//
// moe-random-weights PLAN.fb writes random weights to the plan's weights file,
// which moec compile --blank-weights has left blank, so that the speed of a
// model can be measured where its weights cannot be brought. The bytes follow
// from a number of the weight and a number of the row: they are the same on
// every machine and for any number of threads.
//
// Matrices have mean 0 and a deviation of 1 / sqrt(columns), which keeps the
// size of what they multiply; vectors (norms, biases) are 0.9 to 1.1. So
// nothing overflows and all logits are finite, but texts of such a model mean
// nothing.
//
//===----------------------------------------------------------------------===//

#include "kernels/Layout.h"
#include "runtime/base/ParallelPieces.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/plan/WeightFiles.h"
#include "test/support/RandomRows.h"

#include <algorithm>
#include <cstdio>
#include <fcntl.h>
#include <unistd.h>
#include <vector>

using namespace moert;
using moek::Format;
using moek::Layout;

namespace {

/// Up to sixteen rows of one matrix, which are a panel where the layout has
/// panels.
struct Pieces {
  const fb::Weight *weight;
  uint64_t number; ///< Number of the weight.
  size_t first; ///< Number of its first piece among the pieces of all weights.
  int64_t ofEachMatrix; ///< Number of pieces of a matrix.
};

class Filler {
public:
  Filler(const fb::Plan &plan, uint32_t file) {
    for (uint32_t i = 0; i < count(plan.weights()); ++i) {
      const fb::Weight *weight = plan.weights()->Get(i);
      if (weight->file() != file)
        continue;
      Pieces pieces{weight, i, pieces_, (weight->rows() + 15) / 16};
      pieces_ += size_t(weight->outer() * pieces.ofEachMatrix);
      bytes_ += extentOf(*weight).bytes;
      weights_.push_back(pieces);
    }
  }

  Status fill(const std::string &path) const {
    int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (file < 0)
      return Status(StatusCode::Io, path + ": cannot open");
    Status status = forEachPiece(pieces_, bytes_, {}, [&] {
      return [&, rows = std::vector<uint8_t>(), out = std::vector<uint8_t>()](
                 size_t i) mutable { return write(file, path, i, rows, out); };
    });
    ::close(file);
    return status;
  }

  uint64_t bytes() const { return bytes_; }

private:
  StatusOr<uint64_t> write(int file, const std::string &path, size_t index,
                           std::vector<uint8_t> &rows,
                           std::vector<uint8_t> &out) const {
    const Pieces &p = *std::prev(
        std::ranges::upper_bound(weights_, index, {}, &Pieces::first));
    const fb::Weight &w = *p.weight;
    auto format = *moek::formatFromNumber(w.format());
    auto layout = *moek::layoutFromNumber(w.layout());
    auto at = int64_t(index - p.first);
    int64_t matrix = at / p.ofEachMatrix, panel = at % p.ofEachMatrix;
    int64_t rowCount = std::min<int64_t>(16, w.rows() - 16 * panel);
    uint64_t rowSize = moek::rowBytes(format, uint64_t(w.cols()));
    rows.resize(16 * rowSize);
    for (int64_t r = 0; r < rowCount; ++r) {
      auto row = uint64_t(matrix * w.rows() + 16 * panel + r);
      moetest::drawRow(format, p.number, row, w.cols(), w.rows() == 1,
                       rows.data() + uint64_t(r) * rowSize);
    }
    std::span<const uint8_t> bytes(rows.data(), uint64_t(rowCount) * rowSize);
    if (layout == Layout::Rows16) {
      out.resize(16 * uint64_t(w.row_stride()));
      if (!moek::packRows16(format, rows.data(), int64_t(rowSize), rowCount,
                            w.cols(), out.data()))
        return Status(StatusCode::Internal, "a format without panels");
      bytes = out;
    }
    auto offset = off_t(w.offset()) + matrix * w.outer_stride() +
                  16 * panel * w.row_stride();
    if (::pwrite(file, bytes.data(), bytes.size(), offset) !=
        ssize_t(bytes.size()))
      return Status(StatusCode::Io, path + ": cannot write");
    return uint64_t(bytes.size());
  }

  std::vector<Pieces> weights_;
  size_t pieces_ = 0;
  uint64_t bytes_ = 0;
};

Status fillWeights(const char *planPath) {
  MOE_ASSIGN_OR_RETURN(Plan plan, Plan::load(planPath));
  MOE_ASSIGN_OR_RETURN(std::vector<InputFile> files,
                       findWeightFiles(plan, {}, FileCheck::Header));
  for (uint32_t i = 0; i < files.size(); ++i) {
    if (plan.table().files()->Get(i)->kind() != fb::FileKind::Packed)
      continue;
    Filler filler(plan.table(), i);
    MOE_RETURN_IF_ERROR(filler.fill(files[i].path()));
    std::printf("%s: %.3f GB of random weights\n", files[i].path().c_str(),
                double(filler.bytes()) / 1e9);
  }
  return Status::ok();
}
} // namespace

int main(int argc, char **argv) {
  if (argc != 2 || *argv[1] == '-') {
    std::fprintf(stderr, "usage: %s PLAN.fb\n", argv[0]);
    return 2;
  }
  Status status = fillWeights(argv[1]);
  if (!status.isOk())
    std::fprintf(stderr, "error: %s\n", status.message().c_str());
  return exitCode(status.code());
}
