//===- PlanTokenizer.h - The tokenizer that a plan carries ------*- C++ -*-===//

#ifndef MOE_RUNTIME_PLAN_PLANTOKENIZER_H
#define MOE_RUNTIME_PLAN_PLANTOKENIZER_H

#include "runtime/plan/Plan.h"
#include "runtime/text/ChatTemplate.h"
#include "runtime/text/Tokenizer.h"

namespace moert {

/// Unsupported when the plan carries none. `preOverride`, unless empty, counts
/// in place of the pre-tokenizer that the plan names.
StatusOr<Tokenizer> planTokenizer(const Plan &plan,
                                  std::string_view preOverride = {});

/// Unsupported when the plan carries none, InvalidFile for one that is no
/// template.
StatusOr<ChatTemplate> planChatTemplate(const Plan &plan);
/// Its text; "" where there is none.
std::string_view planChatTemplateSource(const Plan &plan);

} // namespace moert

#endif // MOE_RUNTIME_PLAN_PLANTOKENIZER_H
