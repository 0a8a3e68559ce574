//===- CallForms.h - Forms that written calls may have ----------*- C++ -*-===//

#ifndef MOE_RUNTIME_CHAT_CALLFORMS_H
#define MOE_RUNTIME_CHAT_CALLFORMS_H

#include "runtime/chat/ProbeCalls.h"

namespace moert {

/// Forms of calls by where the names, keys and values of samples stand, the
/// likeliest first. Whether one reads the samples is to be tried (CallTrial.h);
/// of Tagged, what depends on the types of values is not in it.
std::vector<ToolFormat> guessedForms(const CallSamples &samples);

} // namespace moert

#endif // MOE_RUNTIME_CHAT_CALLFORMS_H
