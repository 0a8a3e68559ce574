//===- PlanTokenizer.h - The tokenizer that a plan carries ------*- C++ -*-===//

#ifndef MOE_RUNTIME_PLANTOKENIZER_H
#define MOE_RUNTIME_PLANTOKENIZER_H

#include "runtime/Plan.h"
#include "runtime/text/Tokenizer.h"

namespace moert {

/// Unsupported when the plan carries none.
StatusOr<Tokenizer> planTokenizer(const Plan &plan);

} // namespace moert

#endif // MOE_RUNTIME_PLANTOKENIZER_H
