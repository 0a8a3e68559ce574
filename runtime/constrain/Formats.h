//===- Formats.h - Formats of JSON Schema -----------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_CONSTRAIN_FORMATS_H
#define MOE_RUNTIME_CONSTRAIN_FORMATS_H

#include "runtime/constrain/Regex.h"

namespace moert {

/// The texts of a format, such as "date"; null if the name is none that limits
/// texts, as JSON Schema wants it for names that are not known.
const Pattern *patternOfFormat(std::string_view name);

} // namespace moert

#endif // MOE_RUNTIME_CONSTRAIN_FORMATS_H
