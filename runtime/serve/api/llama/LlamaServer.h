//===- LlamaServer.h - llama-server's own interface -------------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_API_LLAMA_LLAMASERVER_H
#define MOE_RUNTIME_SERVE_API_LLAMA_LLAMASERVER_H

#include "runtime/serve/api/ApiContext.h"

namespace moert {

// Endpoints.
void llamaCompletion(Exchange exchange);
void llamaInfill(Exchange exchange);
void tokenize(Exchange exchange);
void detokenize(Exchange exchange);
void applyTemplate(Exchange exchange);
/// Answers the requests of vLLM's clients about the tokenizer.
void tokenizerInfo(Exchange exchange);
void serverProperties(Exchange exchange);
/// Answers with an empty list: adapters are not supported.
void listAdapters(Exchange exchange);

/// Sampling parameters by llama-server's names.
nlohmann::ordered_json samplingJson(const SamplerParams &params);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_LLAMA_LLAMASERVER_H
