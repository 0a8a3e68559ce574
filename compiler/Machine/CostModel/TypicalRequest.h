//===- TypicalRequest.h - What placement optimises for ----------*- C++ -*-===//

#ifndef MOE_COMPILER_MACHINE_COSTMODEL_TYPICALREQUEST_H
#define MOE_COMPILER_MACHINE_COSTMODEL_TYPICALREQUEST_H

#include <cstdint>

namespace moec {

/// Tokens of the prompts of typical requests, all equally frequent, where the
/// user names no length, and the tokens that each request generates.
inline constexpr int64_t kTypicalPrompts[] = {256, 2048, 16384};
inline constexpr int64_t kTypicalGenerated = 256;

} // namespace moec

#endif // MOE_COMPILER_MACHINE_COSTMODEL_TYPICALREQUEST_H
