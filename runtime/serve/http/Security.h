//===- Security.h - Keys, hosts and origins ---------------------*- C++ -*-===//
//
// Decides who may use a server. Three dangers: somebody without a key on the
// network; a web page that makes a browser on this machine call a local server
// by a name that the page's owner made stand for 127.0.0.1 (DNS rebinding, seen
// by the Host header); and a web page that calls it directly (seen by the
// Origin header, which browsers always send and pages cannot change).
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_SERVE_HTTP_SECURITY_H
#define MOE_RUNTIME_SERVE_HTTP_SECURITY_H

#include "runtime/base/Status.h"

#include <array>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// The keys of clients. Only their hashes are kept.
class KeyRing {
public:
  /// The owner of a key.
  struct Client {
    std::string name;
    /// Clients of one group may find out what each other asked; without a group
    /// it is the name. A group's begins with "@".
    std::string group;
  };

  /// Reads keys from a text: one a line, as KEY, NAME:KEY or NAME@GROUP:KEY,
  /// where names and groups are up to 64 letters, digits and "_.-"; empty lines
  /// and those that begin with "#" do not count. Several keys may have the same
  /// name, which is what clients are told apart by; without a name it is made
  /// of the key's hash. Fails with
  /// InvalidFile, naming the line but never the key: for a key with spaces or
  /// outside printable ASCII, for one that is there twice, and for a text
  /// without keys.
  static StatusOr<KeyRing> parse(std::string_view text);

  /// Adds a key without a name, unless it is there. Fails with Usage for one
  /// that is empty, or has spaces or what is not printable ASCII.
  Status add(std::string_view key);

  /// Returns the client that has `key`, or null. Takes the same time for every
  /// key.
  const Client *clientOf(std::string_view key) const;

  size_t size() const { return keys_.size(); }

private:
  using Hash = std::array<unsigned char, 32>;
  struct Key {
    Client client;
    Hash hash;
  };
  static Hash hashOf(std::string_view key);
  /// Returns the name of a client that has none in the file.
  static std::string nameOf(const Hash &hash);
  bool has(const Hash &hash) const;

  std::vector<Key> keys_;
};

struct KeyFile {
  KeyRing keys;
  std::string warning; ///< "" unless other users can read the file.
};

/// Reads a file of keys. Fails as KeyRing::parse() does and with Io, naming the
/// file.
StatusOr<KeyFile> readKeyFile(const std::string &path);

/// Returns a warning if users other than the owner can read a file with
/// secrets, else "".
std::string secretFileWarning(const std::string &path);

/// Headers of a request; names are in lower case.
using HeaderMap = std::map<std::string, std::string, std::less<>>;

/// Returns the keys that a request presents: "Authorization: Bearer", x-api-key
/// and api-key.
std::vector<std::string_view> presentedKeys(const HeaderMap &headers);

/// A host and a port as in "localhost:8080", "[::1]:80" and "example.org".
struct HostPort {
  std::string host; ///< Host in lower case, without brackets and a final dot.
  std::string port; ///< "" if there is none.
};

/// Takes a Host header's value apart. Fails with InvalidFile.
StatusOr<HostPort> parseHost(std::string_view text);

/// Returns whether a host is "localhost", a name below it, or an address of
/// loopback.
bool isLoopbackHost(std::string_view host);

/// Returns whether a host is an address and not a name.
bool isAddress(std::string_view host);

/// The hosts to which a server without keys answers.
struct HostRule {
  std::vector<std::string> bound;   ///< Addresses at which the server listens.
  std::vector<std::string> allowed; ///< Names that the user allows.
};

/// Returns whether a request to `host` is meant for this server: loopback, an
/// address that is bound, any address where all are bound (0.0.0.0 or ::), or
/// an allowed name. A page can only rebind a name.
bool isHostAllowed(const HostRule &rule, std::string_view host);

/// Returns whether an Origin ("https://example.org:8443") has the host and port
/// of the Host header. The scheme does not count: a proxy may have taken TLS
/// off.
bool isSameOrigin(std::string_view origin, const HostPort &host);

/// Returns whether a list has the origin, or "*".
bool isOriginListed(std::span<const std::string> allowed,
                    std::string_view origin);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_HTTP_SECURITY_H
