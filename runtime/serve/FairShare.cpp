#include "runtime/serve/FairShare.h"

#include <algorithm>
#include <limits>

namespace moert {

FairShare::Account &FairShare::account(std::string_view client) {
  auto it = std::ranges::find(circle_, client, &Account::client);
  if (it != circle_.end())
    return *it;
  circle_.push_back({std::string(client)});
  return circle_.back();
}

void FairShare::startRounds(const std::vector<std::string_view> &wanting) {
  int64_t most = std::numeric_limits<int64_t>::min();
  for (std::string_view client : wanting)
    most = std::max(most, account(client).balance);
  const int64_t rounds = -most / quantum_ + 1;
  std::vector<Account> kept;
  size_t at = 0;
  for (size_t i = 0; i < circle_.size(); ++i) {
    Account &each = circle_[i];
    each.balance += rounds * quantum_;
    const bool wants = std::ranges::find(wanting, each.client) != wanting.end();
    if (wants || each.balance < 0)
      kept.push_back(std::move(each));
    // The round begins after the client that was served last.
    if (i == at_)
      at = kept.size();
  }
  circle_ = std::move(kept);
  at_ = at % circle_.size();
}

size_t FairShare::next(const std::vector<std::string_view> &wanting) {
  for (std::string_view client : wanting)
    account(client);
  for (;;) {
    for (size_t i = 0; i < circle_.size(); ++i) {
      const size_t index = (at_ + i) % circle_.size();
      const Account &each = circle_[index];
      if (each.balance <= 0)
        continue;
      auto it = std::ranges::find(wanting, each.client);
      if (it == wanting.end())
        continue;
      at_ = index;
      return size_t(it - wanting.begin());
    }
    startRounds(wanting);
  }
}

} // namespace moert
