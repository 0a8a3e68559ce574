//===- PlanTokenizer.h - The tokenizer that a plan carries ------*- C++ -*-===//

#ifndef MOE_RUNTIME_PLAN_PLANTOKENIZER_H
#define MOE_RUNTIME_PLAN_PLANTOKENIZER_H

#include "runtime/plan/Plan.h"
#include "runtime/text/ChatTemplate.h"
#include "runtime/text/Tokenizer.h"

namespace moert {

/// Returns the plan's tokenizer; fails with Unsupported if it has none.
/// `preOverride`, unless empty, replaces the name of the plan's pre-tokenizer.
StatusOr<Tokenizer> planTokenizer(const Plan &plan,
                                  std::string_view preOverride = {});

/// Returns the plan's chat template. Fails with Unsupported if it has none, and
/// with InvalidFile if its template cannot be parsed.
StatusOr<ChatTemplate> planChatTemplate(const Plan &plan);
/// Returns the text of the template; "" if there is none.
std::string_view planChatTemplateSource(const Plan &plan);

/// Returns the prompt of a classifier that ranks documents, with "{query}" and
/// "{document}" in it; "" if there is none.
std::string_view planRankTemplate(const Plan &plan);

} // namespace moert

#endif // MOE_RUNTIME_PLAN_PLANTOKENIZER_H
