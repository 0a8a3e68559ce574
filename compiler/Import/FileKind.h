//===- FileKind.h - Recognises files that are not GGUF ----------*- C++ -*-===//

#ifndef MOE_COMPILER_IMPORT_FILEKIND_H
#define MOE_COMPILER_IMPORT_FILEKIND_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <span>
#include <string>

namespace moec {

/// Fails unless `bytes`, the content of `path`, begins like a GGUF file. The
/// message says what the file looks like instead (an HTML page, a checkpoint
/// in another format, ...) and what to do.
moert::Status checkGgufMagic(const std::string &path,
                             std::span<const uint8_t> bytes);

/// Fails with advice if `path` names no regular file: a directory lists its
/// models, a missing file suggests a similar name.
moert::Status checkModelPath(const std::string &path);

} // namespace moec

#endif // MOE_COMPILER_IMPORT_FILEKIND_H
