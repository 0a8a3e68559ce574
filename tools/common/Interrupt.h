//===- Interrupt.h - Ctrl-C as a flag ---------------------------*- C++ -*-===//

#ifndef MOE_TOOLS_COMMON_INTERRUPT_H
#define MOE_TOOLS_COMMON_INTERRUPT_H

#include <atomic>

namespace moetool {

/// From now on Ctrl-C sets the returned flag; a second one ends the process, as
/// moert::endBySignal() does.
const std::atomic<bool> *catchInterrupt();
/// Clears the flag: the next Ctrl-C is a first one again. Returns what it was.
bool takeInterrupt();

} // namespace moetool

#endif // MOE_TOOLS_COMMON_INTERRUPT_H
