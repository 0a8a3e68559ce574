//===- VectorJob.h - Answers that need a vector for each prompt -*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_API_VECTORJOB_H
#define MOE_RUNTIME_SERVE_API_VECTORJOB_H

#include "runtime/serve/api/ApiContext.h"

#include <functional>
#include <memory>
#include <vector>

namespace moert {

/// The result that is asked of a model: Backend::embed or Backend::classify.
using AskVector = uint64_t (Backend::*)(std::vector<int32_t> tokens,
                                        std::string client,
                                        Backend::VectorThen then);

/// Returns the answer for the vectors of all prompts, in their order; the
/// prompts have `tokens` tokens together.
using WriteVectors = std::function<nlohmann::ordered_json(
    const ModelFacts &, std::vector<std::vector<float>> vectors,
    size_t tokens)>;

/// Answers a request after the model gave a vector for each of `prompts`, or
/// with the first error. Stops if the client leaves.
void answerWithVectors(Exchange exchange, std::shared_ptr<Backend> backend,
                       std::vector<ChatPrompt> prompts, AskVector ask,
                       WriteVectors write);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_VECTORJOB_H
