//===- Gbnf.h - Grammars in llama.cpp's notation ----------------*- C++ -*-===//

#ifndef MOE_RUNTIME_CONSTRAIN_GBNF_H
#define MOE_RUNTIME_CONSTRAIN_GBNF_H

#include "runtime/base/Deadline.h"
#include "runtime/constrain/Grammar.h"

#include <string_view>

namespace moert {

/// Reads a grammar in GBNF:
///
///   root  ::= item ("," item)*     # a comment
///   item  ::= [0-9a-f]{1,4} | "a\tb" | .
///
/// The text is described by the rule `root`. Inside parentheses and after
/// `::=` and `|` an alternative may continue on the next line. Escapes are
/// \n \r \t \\ \" \[ \] \- \^ \xHH \uHHHH \UHHHHHHHH. Fails with Usage and a
/// position, or once the deadline has passed.
StatusOr<Grammar> parseGbnf(std::string_view text,
                            const Deadline &deadline = {});

} // namespace moert

#endif // MOE_RUNTIME_CONSTRAIN_GBNF_H
