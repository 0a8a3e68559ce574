//===- CallTrial.h - Whether a form fits written calls ----------*- C++ -*-===//

#ifndef MOE_RUNTIME_CHAT_CALLTRIAL_H
#define MOE_RUNTIME_CHAT_CALLTRIAL_H

#include "runtime/chat/ProbeCalls.h"

namespace moert {

/// Whether the parser reads the calls that were written, and nothing else, in
/// this form.
bool readsCalls(const ToolFormat &form, const WrittenCalls &written);
/// Whether the grammar of calls in this form has what was written.
bool saysCalls(const ToolFormat &form, const WrittenCalls &written);

} // namespace moert

#endif // MOE_RUNTIME_CHAT_CALLTRIAL_H
