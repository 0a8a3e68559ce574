//===- UnknownParts.h - Finds parts that are not supported ------*- C++ -*-===//

#ifndef MOE_MODELS_UNKNOWNPARTS_H
#define MOE_MODELS_UNKNOWNPARTS_H

#include "compiler/Import/GgufFile.h"

#include <set>
#include <string>
#include <vector>

namespace moec {

/// The parts for which builders ask a file, whether the file has them or not.
struct AskedParts {
  std::set<std::string, std::less<>> tensors; ///< Full names.
  /// Names without the architecture's prefix.
  std::set<std::string, std::less<>> keys;
};

/// Returns the tensors and keys of a file that are not among `asked`, one of
/// each kind: 'tensor "blk.0.ssm_conv1d.weight"', 'key
/// "qwen35.ssm.state_size"'. Tensors are of one kind if they differ in the
/// layer, in the number of an expert, or as weight and bias.
std::vector<std::string> unknownParts(const GgufModel &model,
                                      const AskedParts &asked);

} // namespace moec

#endif // MOE_MODELS_UNKNOWNPARTS_H
