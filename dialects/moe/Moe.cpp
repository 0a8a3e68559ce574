//===- Moe.cpp - Dialect registration and attributes ----------------------===//

#include "dialects/moe/Moe.h"

#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

#include <cmath>

using namespace mlir;
using namespace mlir::moe;

#include "dialects/moe/MoeDialect.cpp.inc"
#include "dialects/moe/MoeEnums.cpp.inc"
#include "dialects/moe/MoeOpInterfaces.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/moe/MoeAttrs.cpp.inc"

FailureOr<Real> moe::parseReal(AsmParser &parser) {
  double value = 0;
  SMLoc place = parser.getCurrentLocation();
  if (parser.parseFloat(value))
    return failure();
  if (!std::isfinite(value))
    return parser.emitError(place, "expected a finite number"), failure();
  return Real(value);
}

void MoeDialect::initialize() {
  registerTypes();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/moe/MoeAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/moe/MoeOps.cpp.inc"
      >();
}
