// Counts of an HTTP server in Prometheus's text format.
#include "runtime/serve/http/HttpServer.h"

#include <fmt/format.h>

namespace moert {

namespace {
struct HttpMetric {
  std::string_view name, type, help;
  double (*value)(const HttpCounts &);
};

constexpr HttpMetric kHttpMetrics[] = {
    {"moert_http_connections_open", "gauge", "Open connections.",
     [](const HttpCounts &c) { return double(c.openConnections); }},
    {"moert_http_body_bytes_pending", "gauge",
     "Bytes of request bodies that are being received.",
     [](const HttpCounts &c) { return double(c.bodyBytes); }},
    {"moert_http_connections_total", "counter", "Connections.",
     [](const HttpCounts &c) { return double(c.connections); }},
    {"moert_http_connections_refused_total", "counter",
     "Connections beyond a limit.",
     [](const HttpCounts &c) { return double(c.refusedConnections); }},
    {"moert_http_requests_total", "counter",
     "Requests that reached an interface or a file.",
     [](const HttpCounts &c) { return double(c.requests); }},
    {"moert_http_requests_refused_total", "counter",
     "Requests that the HTTP server itself answered with an error.",
     [](const HttpCounts &c) { return double(c.refusedRequests); }},
    {"moert_http_answers_cut_total", "counter",
     "Answers whose clients left or were too slow.",
     [](const HttpCounts &c) { return double(c.cutAnswers); }},
};
} // namespace

std::string metricsText(const HttpCounts &counts) {
  std::string text;
  for (const HttpMetric &metric : kHttpMetrics)
    text +=
        fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n{0} {3}\n", metric.name,
                    metric.help, metric.type, metric.value(counts));
  return text;
}

} // namespace moert
