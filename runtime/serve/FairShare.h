//===- FairShare.h - Whose turn it is ---------------------------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_FAIRSHARE_H
#define MOE_RUNTIME_SERVE_FAIRSHARE_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// Divides something that is counted in tokens between clients: deficit round
/// robin (Shreedhar and Varghese, 1995) in which a client pays afterwards, so
/// that the cost need not be known before. Each client has a balance, which
/// grows by a quantum per round; the first one in the circle with a positive
/// balance is served until it has none left. Whoever wanted nothing for a while
/// has saved nothing. Not for several threads.
class FairShare {
public:
  /// `quantum` is above 0.
  explicit FairShare(int64_t quantum) : quantum_(quantum) {}

  /// Returns the index of the client in `wanting` whose turn it is. `wanting`
  /// holds at least one client, each once.
  size_t next(const std::vector<std::string_view> &wanting);

  /// Says that the client has got so many tokens.
  void charge(std::string_view client, int64_t tokens) {
    account(client).balance -= tokens;
  }

  /// Number of clients that are remembered.
  size_t size() const { return circle_.size(); }

private:
  struct Account {
    std::string client;
    int64_t balance = 0;
  };
  Account &account(std::string_view client);
  /// Gives all of the circle as many quanta as it takes for one of `wanting` to
  /// have a positive balance, and forgets those that want and owe nothing.
  void startRounds(const std::vector<std::string_view> &wanting);

  int64_t quantum_;
  std::vector<Account> circle_;
  size_t at_ = 0; ///< Index where the search for a positive balance begins.
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_FAIRSHARE_H
