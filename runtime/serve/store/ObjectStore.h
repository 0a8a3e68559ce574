//===- ObjectStore.h - What clients keep on a server ------------*- C++ -*-===//
//
// Interfaces whose clients name things by ids (assistants, threads, messages,
// runs, responses) keep them here: a text per object, which the store does not
// look into, its owner, and the object that it is a part of. With a file they
// survive a restart, and a process that was killed at any moment: each call is
// one transaction.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_SERVE_STORE_OBJECTSTORE_H
#define MOE_RUNTIME_SERVE_STORE_OBJECTSTORE_H

#include "runtime/serve/store/Sqlite.h"

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace moert {

/// The most that clients may keep.
struct StoreLimits {
  /// Limit for the bodies of an owner.
  uint64_t bytesPerOwner = uint64_t{256} << 20;
  uint64_t objectsPerOwner = 100'000;
  uint64_t bytes = uint64_t{2} << 30; ///< Limit for the bodies of all owners.
};

struct StoredObject {
  std::string id;          ///< Unique in the store.
  std::string kind;        ///< "thread", "run", ...
  std::string owner;       ///< Name of the client that may see it.
  std::string parent = {}; ///< The object with which it is deleted; "": none.
  /// State of the object ("in_progress", ...), if its kind has states.
  std::string status = {};
  std::string tag = {}; ///< Text by which lists of its kind are filtered.
  std::string body = {};
  int64_t created = 0; ///< Seconds since 1970.
};

/// A part of a list.
struct StoreQuery {
  std::string kind, owner = {}, parent = {};
  std::string tag = {}; ///< "" lists all objects.
  bool newestFirst = true;
  /// Ids of objects after and before which, in the order of the list, the
  /// answer lies; "": no limit.
  std::string after = {}, before = {};
  int32_t limit = 20;
};
struct StorePage {
  std::vector<StoredObject> objects;
  bool hasMore = false;
};

/// Functions may be called from any thread. But for tidy() and the end, they
/// write to the operating system's cache and do not wait for the disk.
class ObjectStore {
public:
  /// Opens the database, whose tables are made or brought up to date; "" is one
  /// in memory. Fails as SqliteDatabase::open() does, and with WrongMachine for
  /// a database that a newer version wrote.
  static StatusOr<std::unique_ptr<ObjectStore>> open(const std::string &path,
                                                     StoreLimits limits = {});
  ~ObjectStore();

  /// Adds objects, all or none. A parent must exist or be added before. Fails
  /// with DoesNotFit beyond a limit, and with Usage if an id exists, a parent
  /// does not, or a thread would have a second run that is not over.
  Status add(const std::vector<StoredObject> &objects);
  /// The object of this id and kind, if it is this owner's. Fails with Io.
  StatusOr<std::optional<StoredObject>>
  find(std::string_view kind, std::string_view id, std::string_view owner);
  /// Fails with Usage if `after` or `before` is not of the list.
  StatusOr<StorePage> list(const StoreQuery &query);
  /// Objects of the kinds "message" and "step" that are parts of a thread or of
  /// its runs, the oldest first.
  StatusOr<std::vector<StoredObject>> threadItems(std::string_view thread);
  /// Changes status and body of an object whose status is `from`; false if it
  /// is another one, or there is no such object.
  StatusOr<bool> replace(std::string_view id, std::string_view from,
                         std::string_view status, std::string_view body);
  /// Removes an object of this owner with its parts; false if there is none.
  StatusOr<bool> remove(std::string_view kind, std::string_view id,
                        std::string_view owner);
  /// Removes the oldest of an owner's objects of a kind beyond a number or a
  /// sum of bytes.
  Status trim(std::string_view kind, std::string_view owner, uint64_t objects,
              uint64_t bytes);
  /// Returns all objects of a kind with this status.
  StatusOr<std::vector<StoredObject>> withStatus(std::string_view kind,
                                                 std::string_view status);
  /// Moves a long log to the database. To be called now and then by a thread
  /// that may wait for the disk; calls of others wait meanwhile.
  void tidy();

private:
  struct Statements;

  explicit ObjectStore(SqliteDatabase database, StoreLimits limits);
  Status prepare();
  Status insert(const StoredObject &object);
  /// Fails if an owner has more than the limits allow.
  Status checkLimits(std::string_view owner);
  StatusOr<int64_t> rank(const StoreQuery &query, const std::string &id);

  std::mutex mutex_;
  SqliteDatabase database_;
  StoreLimits limits_;
  /// Destroyed before the database is.
  std::unique_ptr<Statements> statements_;
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_STORE_OBJECTSTORE_H
