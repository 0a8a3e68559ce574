//===- Collapse.h - Ops of many layers in one row ---------------*- C++ -*-===//

#ifndef MOE_COMPILER_EXPLAIN_COLLAPSE_H
#define MOE_COMPILER_EXPLAIN_COLLAPSE_H

#include "compiler/Explain/Summary.h"

#include <map>
#include <set>
#include <string>

namespace moec {

/// The ops that share the name `rest` but for the layer.
struct OpNames {
  std::string_view rest; ///< "attn_q" of "blk.3.attn_q"; else the whole name.
  std::set<int> layers;  ///< Empty for names without a layer.
  unsigned occurrences = 0;

  explicit OpNames(std::string_view op);
  /// Adds an op of the same rest.
  void add(const OpNames &op);

  /// "blk.3-60.attn_q", "blk.0-2,5.attn_v". More than three ranges become
  /// "blk.0..26.attn_v" when `brief`: some of the layers from 0 to 26.
  std::string text(bool brief) const;
  /// Its part in front of `rest`: "blk.3-60.", or "".
  std::string layerText(bool brief) const;
};

/// The op's reason with layers told from its own: "blk.N.ffn" for its layer and
/// "blk.N-1.ffn" for the one before, so that layers alike have one reason.
std::string reasonOfAnyLayer(const OpCost &op);

struct OpRow {
  OpNames names;
  OpCost cost; ///< Sums over the row's ops.
};

/// Ops alike in everything but the layer, reasonOfAnyLayer() included, share a
/// row, in the order in which the first of each comes. `full`: every op has its
/// own.
std::vector<OpRow> makeRows(const std::vector<OpCost> &ops, bool full);

/// The distinct reasons of a plan, as reasonOfAnyLayer() tells them, numbered
/// from 1 in order of appearance.
struct Reasons {
  struct Entry {
    std::string reason;
    std::vector<OpNames> ops;
  };
  std::vector<Entry> entries;

  explicit Reasons(const std::vector<PhaseCost> &phases);
  /// 0 without a reason.
  size_t numberOf(const OpCost &op) const;

private:
  std::map<std::string, size_t> numbers_;
};

} // namespace moec

#endif // MOE_COMPILER_EXPLAIN_COLLAPSE_H
