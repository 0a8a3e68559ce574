#include "runtime/serve/api/openai/ResponseStore.h"

#include "runtime/serve/api/ApiError.h"

namespace moert {

void ResponseStore::keep(std::string id, std::string client,
                         const nlohmann::ordered_json &messages) {
  Entry entry{std::move(id), std::move(client), jsonText(messages)};
  std::lock_guard lock(mutex_);
  bytes_ += entry.messages.size();
  entries_.push_front(std::move(entry));
  while (entries_.size() > mostEntries_ || bytes_ > mostBytes_) {
    bytes_ -= entries_.back().messages.size();
    entries_.pop_back();
  }
}

std::optional<nlohmann::ordered_json>
ResponseStore::find(const std::string &id, const std::string &client) const {
  std::lock_guard lock(mutex_);
  for (const Entry &entry : entries_)
    if (entry.id == id && entry.client == client)
      return nlohmann::ordered_json::parse(entry.messages);
  return std::nullopt;
}

} // namespace moert
