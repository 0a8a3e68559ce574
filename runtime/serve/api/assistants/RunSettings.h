//===- RunSettings.h - What a run asks of a model ---------------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_API_ASSISTANTS_RUNSETTINGS_H
#define MOE_RUNTIME_SERVE_API_ASSISTANTS_RUNSETTINGS_H

#include "runtime/serve/api/Prepare.h"
#include "runtime/serve/api/StoredObjects.h"

namespace moert {

/// Time for which a run may wait for its tools.
inline constexpr int64_t kSecondsForTools = 600;

/// Reads model, sampling, tools and the format of answers, which assistants and
/// runs have in common.
void readRunSettings(const Field &body, const ApiSettings &settings,
                     ChatCall &call);

/// A run of `assistant` in `thread`, with the settings of the request `body`
/// where it has some and the assistant's elsewhere.
nlohmann::ordered_json newRun(const Exchange &exchange,
                              const std::string &thread,
                              const nlohmann::ordered_json &assistant,
                              const nlohmann::ordered_json &body);
/// Whether all fields of a request for a run are right.
std::optional<ApiError> checkRun(const nlohmann::ordered_json &body,
                                 const nlohmann::ordered_json &run,
                                 const ApiSettings &settings);

/// What a run generates next: it answers the messages of its thread and what
/// tools said. Where they are more than the context holds, or than the run
/// allows, the oldest are left out.
Prepared prepareRun(const Backend &backend, const ApiSettings &settings,
                    const nlohmann::ordered_json &run,
                    const std::vector<StoredObject> &threadItems);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_ASSISTANTS_RUNSETTINGS_H
