//===- Rerank.h - Documents by their relevance ------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_API_RERANK_H
#define MOE_RUNTIME_SERVE_API_RERANK_H

#include "runtime/serve/api/ApiContext.h"

#include <span>

namespace moert {

/// Endpoint: ranks `documents` by how well they answer `query`, for models with
/// a classifier; in the form of Jina and Cohere, or with `texts` in place of
/// `documents` in that of text-embeddings-inference.
void rankDocuments(Exchange exchange);

/// Returns the relevance of a document by the outputs of the classifier: the
/// only one as it is, or the probability of the first of several (softmax).
double relevanceOf(std::span<const float> outputs);

/// Returns the prompt with the query and the document in the template's
/// places. Names of control tokens in them are text. Fails with Unsupported
/// for a template without both places, and as Tokenizer::encode() does.
StatusOr<ChatPrompt> rankPrompt(const Tokenizer &tokenizer,
                                std::string_view rankTemplate,
                                std::string_view query,
                                std::string_view document,
                                const Deadline &deadline = {});

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_RERANK_H
