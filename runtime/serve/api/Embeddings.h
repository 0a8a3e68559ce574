//===- Embeddings.h - Texts as vectors --------------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_API_EMBEDDINGS_H
#define MOE_RUNTIME_SERVE_API_EMBEDDINGS_H

#include "runtime/serve/api/ApiContext.h"

#include <span>
#include <string>

namespace moert {

// Endpoints of OpenAI and Ollama.
void createEmbeddings(Exchange exchange);
/// Answers in the form of llama-server.
void llamaEmbedding(Exchange exchange);
void ollamaEmbed(Exchange exchange);
/// The older one, for one text.
void ollamaEmbedding(Exchange exchange);

/// Little-endian floats in base64, which OpenAI's client asks for.
std::string base64Floats(std::span<const float> values);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_EMBEDDINGS_H
