//===- KeepAlive.h - How long Ollama's clients keep a model -----*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_API_OLLAMA_KEEPALIVE_H
#define MOE_RUNTIME_SERVE_API_OLLAMA_KEEPALIVE_H

#include "runtime/serve/api/Backend.h"
#include "runtime/serve/api/Fields.h"

namespace moert {

/// `keep_alive`: seconds, or a duration as Go writes it, such as "1h30m"; below
/// 0: for ever. Not set if the field is absent.
ModelHost::KeepTime readKeepAlive(const Field &field);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_OLLAMA_KEEPALIVE_H
