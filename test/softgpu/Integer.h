//===- Integer.h - Integer forms of shared opcodes --------------*- C++ -*-===//

#ifndef MOE_TEST_SOFTGPU_INTEGER_H
#define MOE_TEST_SOFTGPU_INTEGER_H

#include "test/softgpu/Decoder.h"

namespace softgpu {

// Decode the rest of an opcode whose next modifiers are those of an integer
// type.
void decodeIntegerAdd(Decoder &decoder, bool subtracts, bool saturates);
void decodeIntegerMul(Decoder &decoder);
void decodeIntegerMad(Decoder &decoder, bool readsCarry);
void decodeIntegerDiv(Decoder &decoder);
void decodeIntegerMinMax(Decoder &decoder, bool isMax);
void decodeIntegerAbsNeg(Decoder &decoder, bool isAbs);

} // namespace softgpu

#endif // MOE_TEST_SOFTGPU_INTEGER_H
