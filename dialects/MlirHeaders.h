//===- MlirHeaders.h - What is precompiled for the compiler -----*- C++ -*-===//
//
// No file includes this: CMake does, for libraries of moe_add_mlir_library. Only
// headers of MLIR that most of them need.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_DIALECTS_MLIRHEADERS_H
#define MOE_DIALECTS_MLIRHEADERS_H

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

#endif // MOE_DIALECTS_MLIRHEADERS_H
