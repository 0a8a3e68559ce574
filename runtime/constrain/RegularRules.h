//===- RegularRules.h - Rules that a scanner can read -----------*- C++ -*-===//

#ifndef MOE_RUNTIME_CONSTRAIN_REGULARRULES_H
#define MOE_RUNTIME_CONSTRAIN_REGULARRULES_H

#include "runtime/constrain/Grammar.h"

namespace moert {

/// Returns a scanner of the texts of a rule, if it describes free text, such as
/// the inside of a string, and needs neither recursion nor many states; null
/// otherwise. Which tokens may follow in a scanner's text is the same wherever
/// the rule is called, and is found once.
std::shared_ptr<const Scanner> scannerOfRule(const Grammar &grammar,
                                             RuleId rule);

} // namespace moert

#endif // MOE_RUNTIME_CONSTRAIN_REGULARRULES_H
