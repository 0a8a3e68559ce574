#include "runtime/serve/http/ServerCore.h"

#include "runtime/serve/http/TlsFiles.h"

namespace moert {

namespace {
/// Connections beyond the limit that are told so at one time.
constexpr size_t kMostRefused = 64;
} // namespace

ServerCore::ServerCore(HttpSettings settings, HttpHandler handler)
    : settings_(std::move(settings)), handler_(std::move(handler)) {
  rules_.hosts.allowed = settings_.allowedHosts;
  rules_.allowedOrigins = settings_.allowedOrigins;
  rules_.publicPaths = settings_.publicPaths;
}

void ServerCore::addBoundAddress(const std::string &address) {
  rules_.hosts.bound.push_back(address);
}

Status ServerCore::readFiles() {
  std::shared_ptr<const KeyRing> keys;
  std::shared_ptr<ssl_ctx_st> tls;
  std::vector<std::string> warnings;
  if (!settings_.apiKeyFile.empty()) {
    MOE_ASSIGN_OR_RETURN(KeyFile file, readKeyFile(settings_.apiKeyFile));
    keys = std::make_shared<const KeyRing>(std::move(file.keys));
    if (!file.warning.empty())
      warnings.push_back(file.warning);
  }
  if (!settings_.certificateFile.empty()) {
    MOE_ASSIGN_OR_RETURN(tls, readTlsFiles(settings_.certificateFile,
                                           settings_.certificateKeyFile));
    if (std::string text = secretFileWarning(settings_.certificateKeyFile);
        !text.empty())
      warnings.push_back(text);
  }
  std::lock_guard lock(mutex_);
  keys_ = std::move(keys);
  tls_ = std::move(tls);
  warnings_ = std::move(warnings);
  return Status::ok();
}

std::vector<std::string> ServerCore::warnings() const {
  std::lock_guard lock(mutex_);
  return warnings_;
}

std::shared_ptr<const KeyRing> ServerCore::keys() const {
  std::lock_guard lock(mutex_);
  return keys_;
}

std::shared_ptr<ssl_ctx_st> ServerCore::tls() const {
  std::lock_guard lock(mutex_);
  return tls_;
}

ServerCore::Place ServerCore::add(const std::shared_ptr<Connection> &connection,
                                  const std::string &group) {
  std::lock_guard lock(mutex_);
  const HttpLimits &limits = settings_.limits;
  ++allConnections_;
  bool isCounted = !group.empty();
  size_t ofGroup = isCounted ? ++groups_[group] : 0;
  Place place = Place::Served;
  if (connections_.size() >= limits.connections + kMostRefused)
    place = Place::Dropped;
  else if (connections_.size() >= limits.connections ||
           ofGroup > limits.connectionsPerPeer)
    place = Place::Refused;
  if (isCounted && ofGroup > limits.connectionsPerPeer + kMostRefused)
    place = Place::Dropped;
  if (place != Place::Served)
    ++refusedConnections_;
  if (place == Place::Dropped) {
    if (isCounted && --groups_[group] == 0)
      groups_.erase(group);
  } else {
    connections_[connection.get()] = {connection, group};
  }
  return place;
}

void ServerCore::remove(const Connection *connection) {
  std::lock_guard lock(mutex_);
  auto found = connections_.find(connection);
  if (found == connections_.end())
    return;
  if (auto group = groups_.find(found->second.group);
      group != groups_.end() && --group->second == 0)
    groups_.erase(group);
  connections_.erase(found);
  if (connections_.empty())
    removed_.notify_all();
}

std::vector<std::shared_ptr<Connection>> ServerCore::connections() const {
  std::vector<std::shared_ptr<Connection>> result;
  std::lock_guard lock(mutex_);
  for (const auto &[address, entry] : connections_)
    if (auto connection = entry.connection.lock())
      result.push_back(std::move(connection));
  return result;
}

bool ServerCore::waitUntilEmpty(std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  return removed_.wait_for(lock, most, [&] { return connections_.empty(); });
}

bool ServerCore::takeBodySpace(uint64_t bytes) {
  if (bodyBytes_.fetch_add(bytes) + bytes <= settings_.limits.bodyBytesInAll)
    return true;
  bodyBytes_ -= bytes;
  return false;
}

HttpCounts ServerCore::counts() const {
  std::lock_guard lock(mutex_);
  return {.openConnections = connections_.size(),
          .bodyBytes = bodyBytes_,
          .connections = allConnections_,
          .refusedConnections = refusedConnections_,
          .requests = requests,
          .refusedRequests = refusedRequests,
          .cutAnswers = cutAnswers};
}

} // namespace moert
