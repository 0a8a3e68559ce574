//===- MlirHeaders.h - What is precompiled for the compiler -----*- C++ -*-===//
//
// No file includes this: CMake does, for libraries of moe_add_mlir_library.
// Only headers of MLIR that most of them need.
//
// Without their assertions, as the library itself is compiled: with them, each
// look-up of an interface searches for the interface's name in a string, which
// was a third of the time of a compilation. Ours stay.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_DIALECTS_MLIRHEADERS_H
#define MOE_DIALECTS_MLIRHEADERS_H

#ifndef NDEBUG
#define NDEBUG
#define MOE_HAS_ASSERTIONS
#endif

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Pass/Pass.h"

#ifdef MOE_HAS_ASSERTIONS
#undef MOE_HAS_ASSERTIONS
#undef NDEBUG
#include <cassert>
#endif

#endif // MOE_DIALECTS_MLIRHEADERS_H
