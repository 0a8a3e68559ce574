//===- Monitor.h - What a monitor asks a server -----------------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_API_MONITOR_MONITOR_H
#define MOE_RUNTIME_SERVE_API_MONITOR_MONITOR_H

#include "runtime/serve/api/ApiContext.h"

#include <string>

namespace moert {

// Endpoints.
void reportHealth(Exchange exchange);
/// Sends browsers to the server's page.
void showPage(Exchange exchange);
void reportMetrics(Exchange exchange);
/// What the client has used since the server's start, by model; without keys,
/// what each user has.
void reportUsage(Exchange exchange);
/// A web page: which device runs which part of a model, and why. The query may
/// name the `model`.
void showPlacement(Exchange exchange);
void reportSlots(Exchange exchange);

/// The counts of models in Prometheus' text format, version 0.0.4. Each model
/// is a label.
std::string
metricsText(const std::vector<std::pair<std::string, BackendStats>> &models);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_MONITOR_MONITOR_H
