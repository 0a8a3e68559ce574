//===- IntensityTable.h - Ops by arithmetic intensity -----------*- C++ -*-===//

#ifndef MOE_COMPILER_EXPLAIN_INTENSITYTABLE_H
#define MOE_COMPILER_EXPLAIN_INTENSITYTABLE_H

#include "compiler/Explain/Collapse.h"
#include "runtime/base/Page.h"

#include <string>
#include <vector>

namespace moec {

/// An op of a model, in all layers that have it on one device.
struct IntensityRow {
  OpNames names;
  std::string_view device;
  const OpCost *first; ///< Of the row's ops in decode.
  /// Bytes of memory that the ops take on the device: weights and cache.
  double held = 0;
  /// FLOPs of a generated token for each of these bytes: what memory of a fast
  /// device is best spent on. All experts take memory, and a token uses few.
  double perHeldByte = 0;
  /// FLOPs for each byte of weights and cache that a step reads.
  double decode = 0, prefill = 0;
  bool isOnGpu = false;
  /// The op is on another device than this order would give it.
  bool differs = false;
};

struct IntensityTable {
  /// In falling order of perHeldByte.
  std::vector<IntensityRow> rows;
  /// Rows before this one fit into the memory that the plan's ops take on GPUs.
  size_t line = 0;
  double gpuBytes = 0; ///< That memory.
};

/// The ops of decode; empty for a plan without a GPU or without a CPU. The
/// summary must outlive the table.
IntensityTable intensityTable(const ExplainSummary &summary);

/// Adds the table, with the line at which the GPUs' memory ends, and the ops
/// that lie on the other side of it.
void addIntensityTable(moert::Page &page, const IntensityTable &table,
                       const Reasons &reasons);

} // namespace moec

#endif // MOE_COMPILER_EXPLAIN_INTENSITYTABLE_H
