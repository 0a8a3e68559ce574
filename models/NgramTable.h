//===- NgramTable.h - Tables that hashes of n-grams index -------*- C++ -*-===//
//
// Some layers read rows of a large table that depend on the last tokens. It
// stays in the model file, of which only these rows are read.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_MODELS_NGRAMTABLE_H
#define MOE_MODELS_NGRAMTABLE_H

#include "models/ModelBuilder.h"

namespace moec {

struct NgramTable {
  int64_t size = 0; ///< The most tokens of an n-gram.
  /// Rows that are read for each number of tokens from 2 on.
  int64_t heads = 0;
  int64_t columns = 0; ///< Columns of the table.
  /// Numbers of moe.ngram_embed; an empty map maps each token to itself.
  std::vector<int64_t> multipliers, moduli, offsets, map;
  int64_t pad = 0;
  bool ends = false;

  int64_t rows() const { return (size - 1) * heads; }
};

/// The names of the keys of a table's numbers, for messages.
struct NgramKeys {
  const char *multipliers, *moduli, *offsets;
};

/// Returns the rows of tensor `name`.weight for `tokens`, each with columns()
/// of the table times rows(). Fails with InvalidFile if numbers do not fit the
/// table, or if a product with the largest token needs more than 63 bits.
/// `part` is the number of the layer's cache that keeps tokens.
moert::StatusOr<mlir::Value>
buildNgramRows(ModelBuilder &model, const NgramTable &table,
               const NgramKeys &keys, int64_t layer, uint64_t part,
               const std::string &label, const std::string &name,
               mlir::Value tokens);

} // namespace moec

#endif // MOE_MODELS_NGRAMTABLE_H
