//===- Interrupt.h - Reports Ctrl-C as a flag -------------------*- C++ -*-===//

#ifndef MOE_TOOLS_COMMON_INTERRUPT_H
#define MOE_TOOLS_COMMON_INTERRUPT_H

#include <atomic>

namespace moetool {

/// Makes Ctrl-C set the returned flag. A second Ctrl-C ends the process like
/// moert::endBySignal().
const std::atomic<bool> *catchInterrupt();
/// Clears the flag and returns its value. The next Ctrl-C sets it again.
bool takeInterrupt();

} // namespace moetool

#endif // MOE_TOOLS_COMMON_INTERRUPT_H
