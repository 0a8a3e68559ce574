#include "runtime/serve/http/ServerCore.h"

#include "runtime/serve/http/Connection.h"
#include "runtime/serve/http/TlsFiles.h"

#include <algorithm>
#include <boost/asio/post.hpp>

namespace moert {

namespace {
/// The most connections beyond the limit that get an error at the same time.
constexpr size_t kMostRefused = 64;

WorkQueue::Limits workLimits(const HttpSettings &settings) {
  const HttpLimits &limits = settings.limits;
  return {.threads = settings.handlerThreads,
          .waiting = limits.waitingRequests,
          .waitingPerClient = limits.waitingRequestsPerClient,
          .largeBytes = limits.largeBody,
          .bytesTogether = limits.largeBodiesTogether};
}
} // namespace

ServerCore::ServerCore(HttpSettings settings, HttpHandler handler)
    : settings_(std::move(settings)), handler_(std::move(handler)),
      bodies_(std::make_shared<BodySpace>(settings_.limits.bodyBytesInAll)),
      work_(workLimits(settings_)), monitors_({}) {
  rules_.hosts.allowed = settings_.allowedHosts;
  rules_.allowedOrigins = settings_.allowedOrigins;
  rules_.publicPaths = settings_.publicPaths;
}

void ServerCore::addBoundAddress(const std::string &address) {
  rules_.hosts.bound.push_back(address);
}

Status ServerCore::readFiles() {
  KeyRing ring;
  std::shared_ptr<ssl_ctx_st> tls;
  std::vector<std::string> warnings;
  if (!settings_.apiKeyFile.empty()) {
    MOE_ASSIGN_OR_RETURN(KeyFile file, readKeyFile(settings_.apiKeyFile));
    ring = std::move(file.keys);
    if (!file.warning.empty())
      warnings.push_back(file.warning);
  }
  for (const std::string &key : settings_.apiKeys)
    MOE_RETURN_IF_ERROR(ring.add(key));
  if (!settings_.certificateFile.empty()) {
    MOE_ASSIGN_OR_RETURN(tls, readTlsFiles(settings_.certificateFile,
                                           settings_.certificateKeyFile));
    if (std::string text = secretFileWarning(settings_.certificateKeyFile);
        !text.empty())
      warnings.push_back(text);
  }
  std::lock_guard lock(mutex_);
  keys_ = settings_.asksForKeys()
              ? std::make_shared<const KeyRing>(std::move(ring))
              : nullptr;
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

WorkQueue &ServerCore::workFor(const std::string &path) {
  return std::ranges::find(settings_.monitorPaths, path) ==
                 settings_.monitorPaths.end()
             ? work_
             : monitors_;
}

void ServerCore::stopWork() {
  work_.stop();
  monitors_.stop();
}

ServerCore::Place ServerCore::add(const std::shared_ptr<Connection> &connection,
                                  const std::string &group) {
  std::shared_ptr<Connection> silent;
  Place place;
  {
    std::lock_guard lock(mutex_);
    const HttpLimits &limits = settings_.limits;
    if (countOf(group) >= limits.connectionsPerPeer)
      silent = removeSilent(group);
    else if (connections_.size() >= limits.connections)
      silent = removeSilent("");
    place = placeFor(group);
    ++allConnections_;
    if (place != Place::Served)
      ++refusedConnections_;
    if (place != Place::Dropped) {
      connections_[connection.get()] = {connection, group};
      if (!group.empty())
        ++groups_[group];
    }
  }
  if (silent)
    boost::asio::post(silent->socket().get_executor(),
                      [silent] { silent->giveWay(); });
  return place;
}

size_t ServerCore::countOf(const std::string &group) const {
  auto found = groups_.find(group);
  return found == groups_.end() ? 0 : found->second;
}

ServerCore::Place ServerCore::placeFor(const std::string &group) const {
  const HttpLimits &limits = settings_.limits;
  const size_t ofGroup = countOf(group);
  if (connections_.size() >= limits.connections + kMostRefused ||
      ofGroup >= limits.connectionsPerPeer + kMostRefused)
    return Place::Dropped;
  return connections_.size() >= limits.connections ||
                 ofGroup >= limits.connectionsPerPeer
             ? Place::Refused
             : Place::Served;
}

void ServerCore::remove(const Connection *connection) {
  std::lock_guard lock(mutex_);
  if (auto found = connections_.find(connection); found != connections_.end())
    erase(found);
}

void ServerCore::erase(Entries::iterator entry) {
  if (auto group = groups_.find(entry->second.group);
      group != groups_.end() && --group->second == 0)
    groups_.erase(group);
  connections_.erase(entry);
  if (connections_.empty())
    removed_.notify_all();
}

std::shared_ptr<Connection> ServerCore::removeSilent(const std::string &group) {
  auto oldest = connections_.end();
  Connection::Clock::time_point since = Connection::Clock::now();
  for (auto it = connections_.begin(); it != connections_.end(); ++it)
    if ((group.empty() || it->second.group == group) &&
        it->first->silentSince() < since) {
      since = it->first->silentSince();
      oldest = it;
    }
  if (oldest == connections_.end())
    return nullptr;
  std::shared_ptr<Connection> found = oldest->second.connection.lock();
  erase(oldest);
  return found;
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

HttpCounts ServerCore::counts() const {
  std::lock_guard lock(mutex_);
  return {.openConnections = connections_.size(),
          .bodyBytes = bodies_->used(),
          .connections = allConnections_,
          .refusedConnections = refusedConnections_,
          .requests = requests,
          .refusedRequests = refusedRequests,
          .cutAnswers = cutAnswers};
}

} // namespace moert
