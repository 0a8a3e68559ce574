//===- UnknownParts.h - Finds parts that no architecture supports ---*- C++
//-*-===//

#ifndef MOE_MODELS_UNKNOWNPARTS_H
#define MOE_MODELS_UNKNOWNPARTS_H

#include "compiler/Import/GgufFile.h"

#include <string>
#include <vector>

namespace moec {

/// Returns the tensors and keys of a file that no supported architecture reads,
/// one of each kind: 'tensor "blk.0.ssm_conv1d.weight"', 'key
/// "qwen35.ssm.state_size"'.
std::vector<std::string> unknownParts(const GgufModel &model);

} // namespace moec

#endif // MOE_MODELS_UNKNOWNPARTS_H
