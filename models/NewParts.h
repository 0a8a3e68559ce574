//===- NewParts.h - What no supported architecture has ----------*- C++ -*-===//

#ifndef MOE_MODELS_NEWPARTS_H
#define MOE_MODELS_NEWPARTS_H

#include "compiler/Import/GgufFile.h"

#include <string>
#include <vector>

namespace moec {

/// What a file has that no architecture of Architectures.def reads, each kind
/// once: 'tensor "blk.0.ssm_conv1d.weight"', 'key "qwen35.ssm.state_size"'.
std::vector<std::string> newParts(const GgufModel &model);

} // namespace moec

#endif // MOE_MODELS_NEWPARTS_H
