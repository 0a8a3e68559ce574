//===- Collapse.h - Ops of many layers in one row ---------------*- C++ -*-===//

#ifndef MOE_COMPILER_EXPLAIN_COLLAPSE_H
#define MOE_COMPILER_EXPLAIN_COLLAPSE_H

#include "compiler/Explain/Summary.h"

#include <map>
#include <set>
#include <string>

namespace moec {

/// The ops that share the name `part` but for the layer.
struct OpNames {
  std::string_view part; ///< "attn_q", "output_norm"
  std::set<int> layers;  ///< Empty outside of layers.
  unsigned occurrences = 1;

  /// One op; `layer` is -1 outside of layers.
  OpNames(std::string_view part, int layer) : part(part) {
    if (layer >= 0)
      layers.insert(layer);
  }
  /// Adds an op of the same part.
  void add(const OpNames &op);

  /// "blk.3-60.attn_q", "blk.0-2,5.attn_v". More than three ranges become
  /// "blk.0..26.attn_v" when `brief`: some of the layers from 0 to 26.
  std::string text(bool brief) const;
  /// The same as it is in the plan.
  std::string name() const { return layerText(false) + std::string(part); }
  /// What is in front of `part`: "blk.3-60.", or "".
  std::string layerText(bool brief) const;
};

/// A text about an op with layers told from its own: "blk.N.ffn" for its layer
/// and "blk.N-1.ffn" for the one before, so that layers alike have one text.
std::string ofAnyLayer(std::string_view text, const OpCost &op);
std::string reasonOfAnyLayer(const OpCost &op);

struct OpRow {
  OpNames names;
  OpCost cost; ///< Sums over the row's ops; names are those of the first.
};

/// Ops alike in everything but the layer, texts as ofAnyLayer() tells them
/// included, share a row, in the order in which the first of each comes.
/// `full`: every op has its own. `rowOfOp`, if given, gets the row of each op.
std::vector<OpRow> makeRows(const std::vector<OpCost> &ops, bool full,
                            std::vector<size_t> *rowOfOp = nullptr);

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
