//===- Ollama.h - Ollama's interface ----------------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_API_OLLAMA_OLLAMA_H
#define MOE_RUNTIME_SERVE_API_OLLAMA_OLLAMA_H

#include "runtime/serve/api/ApiContext.h"

namespace moert {

// Endpoints.
void ollamaChat(Exchange exchange);
void ollamaGenerate(Exchange exchange);
void ollamaTags(Exchange exchange);
void ollamaShow(Exchange exchange);
void ollamaRunning(Exchange exchange);
void ollamaVersion(Exchange exchange);
/// Says that a model is there, if it is: clients ask before they use it.
void ollamaPull(Exchange exchange);

/// Seconds since 1970 as "2025-07-04T09:05:03Z".
std::string isoTime(int64_t seconds);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_OLLAMA_OLLAMA_H
