//===- SampleModel.h - A small model with everything in it ------*- C++ -*-===//

#ifndef MOE_TEST_SUPPORT_SAMPLEMODEL_H
#define MOE_TEST_SUPPORT_SAMPLEMODEL_H

#include "test/support/GgufBuilder.h"

namespace moetest {

/// A file of a few kilobytes that uses every metadata type, nested arrays, a
/// vocabulary and several tensor formats: what the truncation and bit flip
/// tests damage. Its tensors have data to the last byte of the file.
GgufBuilder sampleModel();

/// The tensors and keys of DeepSeek-V3 with `layers` layers (61 in the real
/// one): 671 billion parameters in quantised formats, without data. Written, it
/// is a file of hundreds of gigabytes that takes no disk space.
GgufBuilder deepseekV3Model(unsigned layers = 61);

} // namespace moetest

#endif // MOE_TEST_SUPPORT_SAMPLEMODEL_H
