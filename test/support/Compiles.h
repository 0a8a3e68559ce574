//===- Compiles.h - The unit models that compile ----------------*- C++ -*-===//

#ifndef MOE_TEST_SUPPORT_COMPILES_H
#define MOE_TEST_SUPPORT_COMPILES_H

#include "compiler/Import/GgufFile.h"
#include "models/Model.h"

namespace moetest {

/// Whether moec compiles a unit model. Those that it refuses have golden logits
/// for an architecture to come.
inline bool compiles(const moec::GgufModel &model) {
  return moec::isSupported(model.architecture());
}

} // namespace moetest

#endif // MOE_TEST_SUPPORT_COMPILES_H
