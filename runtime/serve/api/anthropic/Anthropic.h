//===- Anthropic.h - Anthropic's interface ----------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_API_ANTHROPIC_ANTHROPIC_H
#define MOE_RUNTIME_SERVE_API_ANTHROPIC_ANTHROPIC_H

#include "runtime/serve/api/ApiContext.h"

namespace moert {

// Endpoints.
void createMessage(Exchange exchange);
void countMessageTokens(Exchange exchange);

/// Reads a request for a message. `needsLimit`: max_tokens must be there.
void readAnthropic(const Field &body, const ApiSettings &settings,
                   bool needsLimit, ChatCall &call);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_ANTHROPIC_ANTHROPIC_H
