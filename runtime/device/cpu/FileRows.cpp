#include "runtime/device/cpu/FileRows.h"

#include "kernels/Ngrams.h"
#include "runtime/plan/PlanAccess.h"

#include <algorithm>
#include <sys/mman.h>
#include <unistd.h>

namespace moert {

FileRows::FileRows(const ProvenPhase &phase, const BoundPhase &bound) {
  for (const ProvenOp &op : phase.ops) {
    if (op.spec().op != moek::OpCode::NgramEmbed ||
        op.operand("tokens").index() != phase.phase->input())
      continue;
    auto found = std::ranges::find(bound.instructions, op.index(),
                                   &BoundInstruction::index);
    if (found != bound.instructions.end())
      tables_.push_back(static_cast<const moek::NgramEmbedArgs *>(found->args));
  }
}

void FileRows::request(const moek::Step &step, const Request &request) const {
  for (const moek::NgramEmbedArgs *a : tables_) {
    const moek::WeightView &table = a->table;
    const auto bytes =
        size_t(moek::rowBytes(table.format, uint64_t(table.cols)));
    for (int32_t i = 0; i < step.sequenceCount; ++i) {
      const moek::SequenceRows rows = step.sequence(i);
      for (int64_t t = rows.begin; t < rows.begin + rows.count; ++t)
        moek::forNgramRows(*a, rows, t, [&](int64_t, int64_t row) {
          request(table.data + row * table.rowStride, bytes);
        });
    }
  }
}

void FileRows::adviseWillNeed(const uint8_t *row, size_t bytes) {
  static const auto page = uintptr_t(::sysconf(_SC_PAGE_SIZE));
  auto begin = reinterpret_cast<uintptr_t>(row) / page * page;
  auto end = reinterpret_cast<uintptr_t>(row) + bytes;
  // A request is a hint: the row is read when it is needed in any case.
  (void)::madvise(reinterpret_cast<void *>(begin), end - begin, MADV_WILLNEED);
}

} // namespace moert
