//===- BillingHeader.h - What Claude Code puts before prompts ---*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_API_ANTHROPIC_BILLINGHEADER_H
#define MOE_RUNTIME_SERVE_API_ANTHROPIC_BILLINGHEADER_H

#include <string>

namespace moert {

/// Returns a system prompt without the block that Claude Code begins it with:
///
///   x-anthropic-billing-header: cc_version=2.1.37.3a3; cc_entrypoint=cli;
///   cch=00000;
///
/// on one line. It is meant for Anthropic's accounts and says nothing to a
/// model. It differs from request to request, so that with it no prompt would
/// begin like the one before, and all of each would have to be evaluated.
std::string withoutBillingHeader(std::string system);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_ANTHROPIC_BILLINGHEADER_H
