//===- Collapse.h - Combines rows of similar ops ----------------*- C++ -*-===//

#ifndef MOE_COMPILER_EXPLAIN_COLLAPSE_H
#define MOE_COMPILER_EXPLAIN_COLLAPSE_H

#include "compiler/Explain/Summary.h"

#include <map>
#include <set>
#include <string>

namespace moec {

/// The ops that have the same name, `part`, in different layers.
struct OpNames {
  std::string_view part; ///< Such as "attn_q" or "output_norm".
  std::set<int> layers;  ///< Empty for an op outside of layers.
  unsigned occurrences = 1;

  /// Creates the name of one op; `layer` is -1 outside of layers.
  OpNames(std::string_view part, int layer) : part(part) {
    if (layer >= 0)
      layers.insert(layer);
  }
  /// Adds an op of the same part.
  void add(const OpNames &op);

  /// Returns a name such as "blk.3-60.attn_q" or "blk.0-2,5.attn_v". If
  /// `brief`, more than three ranges become "blk.0..26.attn_v": some of the
  /// layers from 0 to 26.
  std::string text(bool brief) const;
  /// Returns the same text with `part` as it is in the plan, not escaped.
  std::string name() const { return layerText(false) + std::string(part); }
  /// Returns the text before `part`: "blk.3-60.", or "".
  std::string layerText(bool brief) const;
};

/// Replaces layers in a text about an op by their distance from the op's layer:
/// "blk.N.ffn" for the same layer and "blk.N-1.ffn" for the previous one. So
/// similar layers have equal texts.
std::string ofAnyLayer(std::string_view text, const OpCost &op);
std::string reasonOfAnyLayer(const OpCost &op);

struct OpRow {
  OpNames names;
  OpCost cost; ///< Sums over the row's ops; texts are those of the first.
};

/// Combines ops that only differ in their layer (with texts as ofAnyLayer()
/// returns them) into rows, in the order of each row's first op. With `full`,
/// every op has a row. `rowOfOp`, if given, receives the row of each op.
std::vector<OpRow> makeRows(const std::vector<OpCost> &ops, bool full,
                            std::vector<size_t> *rowOfOp = nullptr);

/// The distinct reasons of a plan, as reasonOfAnyLayer() returns them, numbered
/// from 1 in order of appearance.
struct Reasons {
  struct Entry {
    std::string reason;
    std::vector<OpNames> ops;
  };
  std::vector<Entry> entries;

  explicit Reasons(const std::vector<PhaseCost> &phases);
  /// Returns the number of the op's reason, or 0 without a reason.
  size_t numberOf(const OpCost &op) const;

private:
  std::map<std::string, size_t> numbers_;
};

} // namespace moec

#endif // MOE_COMPILER_EXPLAIN_COLLAPSE_H
