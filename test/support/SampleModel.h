//===- SampleModel.h - A small GGUF model with every feature ----*- C++ -*-===//

#ifndef MOE_TEST_SUPPORT_SAMPLEMODEL_H
#define MOE_TEST_SUPPORT_SAMPLEMODEL_H

#include "test/support/GgufBuilder.h"

namespace moetest {

/// A file of a few kilobytes that uses every metadata type, nested arrays, a
/// vocabulary and several tensor formats; the truncation and bit flip tests
/// damage it. Its tensors have data up to the last byte of the file.
GgufBuilder sampleModel();

/// The tensors and keys of DeepSeek-V3 with `layers` layers (the real one has
/// 61): 671 billion parameters in quantised formats, without data. The written
/// file has hundreds of gigabytes but takes no disk space.
GgufBuilder deepseekV3Model(unsigned layers = 61);

} // namespace moetest

#endif // MOE_TEST_SUPPORT_SAMPLEMODEL_H
