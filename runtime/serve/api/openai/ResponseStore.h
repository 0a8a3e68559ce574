//===- ResponseStore.h - Conversations that go on by an id ------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_API_OPENAI_RESPONSESTORE_H
#define MOE_RUNTIME_SERVE_API_OPENAI_RESPONSESTORE_H

#include <cstddef>
#include <list>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace moert {

/// The conversations that /v1/responses answered, by the ids of the answers, in
/// memory alone. The oldest go when there are too many or they are too large.
/// Any thread may use it.
class ResponseStore {
public:
  ResponseStore(size_t mostEntries, size_t mostBytes)
      : mostEntries_(mostEntries), mostBytes_(mostBytes) {}

  /// Keeps `messages`, which end with the answer `id` to `client`.
  void keep(std::string id, std::string client,
            const nlohmann::ordered_json &messages);
  /// The messages of an answer to this client.
  std::optional<nlohmann::ordered_json> find(const std::string &id,
                                             const std::string &client) const;

private:
  struct Entry {
    std::string id, client, messages;
  };

  size_t mostEntries_, mostBytes_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_; ///< The newest first.
  size_t bytes_ = 0;
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_API_OPENAI_RESPONSESTORE_H
