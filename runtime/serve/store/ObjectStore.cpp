#include "runtime/serve/store/ObjectStore.h"

#include "runtime/base/Text.h"
#include "runtime/serve/store/StoreSchema.h"

#include <fmt/format.h>
#include <limits>

namespace moert {

namespace {
/// Pages of the log (4 KiB each) from which on tidy() empties it.
constexpr int kLongLog = 1000;

constexpr int64_t kFirst = std::numeric_limits<int64_t>::min();
constexpr int64_t kLast = std::numeric_limits<int64_t>::max();

#define MOE_STORE_COLUMNS "id, kind, owner, parent, status, tag, created, body"

StoredObject readRow(const SqliteStatement &row) {
  return {.id = row.text(0),
          .kind = row.text(1),
          .owner = row.text(2),
          .parent = row.text(3),
          .status = row.text(4),
          .tag = row.text(5),
          .body = row.text(7),
          .created = row.integer(6)};
}

/// Returns all rows that a bound statement gives.
StatusOr<std::vector<StoredObject>> readRows(SqliteStatement &statement) {
  std::vector<StoredObject> objects;
  while (true) {
    MOE_ASSIGN_OR_RETURN(bool hasRow, statement.step());
    if (!hasRow)
      break;
    objects.push_back(readRow(statement));
  }
  statement.reset();
  return objects;
}
} // namespace

/// Statements that are prepared once.
struct ObjectStore::Statements {
  SqliteStatement insert, find, rank, ascending, descending, threadItems,
      replace, remove, sums, allBytes, kindSums, removeOldest, withStatus,
      ownerOf;
};

ObjectStore::ObjectStore(SqliteDatabase database, StoreLimits limits)
    : database_(std::move(database)), limits_(limits),
      statements_(std::make_unique<Statements>()) {}

ObjectStore::~ObjectStore() {
  statements_.reset();
  database_.checkpoint();
}

StatusOr<std::unique_ptr<ObjectStore>>
ObjectStore::open(const std::string &path, StoreLimits limits) {
  MOE_ASSIGN_OR_RETURN(SqliteDatabase database, SqliteDatabase::open(path));
  if (Status made = makeStoreTables(database); !made)
    return std::move(made).at(path.empty() ? "database in memory" : path);
  std::unique_ptr<ObjectStore> store(
      new ObjectStore(std::move(database), limits));
  MOE_RETURN_IF_ERROR(store->prepare());
  return store;
}

Status ObjectStore::prepare() {
  constexpr const char *columns = MOE_STORE_COLUMNS;
  auto listed = [&](const char *order) {
    return fmt::format("SELECT {} FROM objects WHERE kind = ?1 AND owner = ?2 "
                       "AND parent IS ?3 AND number > ?4 AND number < ?5 "
                       "AND (?6 = '' OR tag = ?6) ORDER BY number {} LIMIT ?7",
                       columns, order);
  };
  Statements &all = *statements_;
  const std::pair<SqliteStatement *, std::string> texts[] = {
      {&all.insert, fmt::format("INSERT INTO objects ({}) VALUES "
                                "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                                columns)},
      {&all.find, fmt::format("SELECT {} FROM objects WHERE id = ?1 AND "
                              "kind = ?2 AND owner = ?3",
                              columns)},
      {&all.rank, "SELECT number FROM objects WHERE id = ?1 AND kind = ?2 AND "
                  "owner = ?3 AND parent IS ?4"},
      {&all.ascending, listed("ASC")},
      {&all.descending, listed("DESC")},
      {&all.threadItems,
       fmt::format("SELECT {0} FROM (SELECT * FROM objects WHERE parent = ?1 "
                   "AND kind = 'message' UNION ALL SELECT part.* FROM objects "
                   "AS run JOIN objects AS part ON part.parent = run.id WHERE "
                   "run.parent = ?1 AND part.kind = 'step') ORDER BY number",
                   columns)},
      {&all.replace, "UPDATE objects SET status = ?3, body = ?4 WHERE id = ?1 "
                     "AND status = ?2"},
      {&all.remove, "DELETE FROM objects WHERE id = ?1 AND kind = ?2 AND "
                    "owner = ?3"},
      {&all.sums, "SELECT sum(objects), sum(bytes) FROM sums WHERE owner = ?1"},
      {&all.allBytes, "SELECT sum(bytes) FROM sums"},
      {&all.kindSums, "SELECT objects, bytes FROM sums WHERE owner = ?1 AND "
                      "kind = ?2"},
      {&all.removeOldest,
       "DELETE FROM objects WHERE number = (SELECT min(number) FROM objects "
       "WHERE kind = ?1 AND owner = ?2 AND parent IS NULL)"},
      {&all.withStatus,
       fmt::format("SELECT {} FROM objects WHERE kind = ?1 AND status = ?2",
                   columns)},
      {&all.ownerOf, "SELECT owner FROM objects WHERE id = ?1"},
  };
  for (const auto &[statement, sql] : texts) {
    MOE_ASSIGN_OR_RETURN(*statement, database_.prepare(sql));
  }
  return Status::ok();
}

Status ObjectStore::insert(const StoredObject &object) {
  SqliteStatement &row = statements_->insert;
  row.bind(1, object.id);
  row.bind(2, object.kind);
  row.bind(3, object.owner);
  if (object.parent.empty())
    row.bindNull(4);
  else
    row.bind(4, object.parent);
  row.bind(5, object.status);
  row.bind(6, object.tag);
  row.bind(7, object.created);
  row.bind(8, object.body);
  return row.run();
}

Status ObjectStore::checkLimits(std::string_view owner) {
  SqliteStatement &sums = statements_->sums;
  sums.bind(1, owner);
  MOE_RETURN_IF_ERROR(sums.step().status());
  auto objects = uint64_t(sums.integer(0)), bytes = uint64_t(sums.integer(1));
  sums.reset();
  MOE_RETURN_IF_ERROR(statements_->allBytes.step().status());
  auto all = uint64_t(statements_->allBytes.integer(0));
  statements_->allBytes.reset();
  if (objects > limits_.objectsPerOwner)
    return Status(StatusCode::DoesNotFit,
                  fmt::format("the most objects that the server keeps for one "
                              "client is {}: delete some",
                              limits_.objectsPerOwner));
  if (bytes > limits_.bytesPerOwner || all > limits_.bytes)
    return Status(
        StatusCode::DoesNotFit,
        fmt::format("the server keeps {} for one client and {} in all: delete "
                    "some objects",
                    humanBytes(double(limits_.bytesPerOwner)),
                    humanBytes(double(limits_.bytes))));
  return Status::ok();
}

Status ObjectStore::add(const std::vector<StoredObject> &objects) {
  std::lock_guard lock(mutex_);
  MOE_ASSIGN_OR_RETURN(SqliteTransaction transaction,
                       SqliteTransaction::begin(database_));
  for (const StoredObject &object : objects)
    MOE_RETURN_IF_ERROR(insert(object));
  if (!objects.empty())
    MOE_RETURN_IF_ERROR(checkLimits(objects.back().owner));
  return transaction.commit();
}

StatusOr<std::optional<StoredObject>>
ObjectStore::find(std::string_view kind, std::string_view id,
                  std::string_view owner) {
  std::lock_guard lock(mutex_);
  SqliteStatement &find = statements_->find;
  find.bind(1, id);
  find.bind(2, kind);
  find.bind(3, owner);
  MOE_ASSIGN_OR_RETURN(std::vector<StoredObject> rows, readRows(find));
  if (rows.empty())
    return std::optional<StoredObject>();
  return std::optional(std::move(rows[0]));
}

StatusOr<int64_t> ObjectStore::rank(const StoreQuery &query,
                                    const std::string &id) {
  SqliteStatement &rank = statements_->rank;
  rank.bind(1, id);
  rank.bind(2, query.kind);
  rank.bind(3, query.owner);
  if (query.parent.empty())
    rank.bindNull(4);
  else
    rank.bind(4, query.parent);
  MOE_ASSIGN_OR_RETURN(bool isFound, rank.step());
  int64_t number = isFound ? rank.integer(0) : 0;
  rank.reset();
  if (!isFound)
    return Status(StatusCode::Usage,
                  fmt::format("{} is not in this list", moert::quoted(id)));
  return number;
}

StatusOr<StorePage> ObjectStore::list(const StoreQuery &query) {
  std::lock_guard lock(mutex_);
  int64_t above = kFirst, below = kLast;
  if (!query.after.empty()) {
    MOE_ASSIGN_OR_RETURN((query.newestFirst ? below : above),
                         rank(query, query.after));
  }
  if (!query.before.empty()) {
    MOE_ASSIGN_OR_RETURN((query.newestFirst ? above : below),
                         rank(query, query.before));
  }
  SqliteStatement &rows =
      query.newestFirst ? statements_->descending : statements_->ascending;
  rows.bind(1, query.kind);
  rows.bind(2, query.owner);
  if (query.parent.empty())
    rows.bindNull(3);
  else
    rows.bind(3, query.parent);
  rows.bind(4, above);
  rows.bind(5, below);
  rows.bind(6, query.tag);
  rows.bind(7, int64_t{query.limit} + 1);
  StorePage page;
  MOE_ASSIGN_OR_RETURN(page.objects, readRows(rows));
  page.hasMore = page.objects.size() > size_t(query.limit);
  if (page.hasMore)
    page.objects.pop_back();
  return page;
}

StatusOr<std::vector<StoredObject>>
ObjectStore::threadItems(std::string_view thread) {
  std::lock_guard lock(mutex_);
  statements_->threadItems.bind(1, thread);
  return readRows(statements_->threadItems);
}

StatusOr<bool> ObjectStore::replace(std::string_view id, std::string_view from,
                                    std::string_view status,
                                    std::string_view body) {
  std::lock_guard lock(mutex_);
  MOE_ASSIGN_OR_RETURN(SqliteTransaction transaction,
                       SqliteTransaction::begin(database_));
  SqliteStatement &row = statements_->replace;
  row.bind(1, id);
  row.bind(2, from);
  row.bind(3, status);
  row.bind(4, body);
  MOE_RETURN_IF_ERROR(row.run());
  if (database_.changes() == 0)
    return false;
  SqliteStatement &owner = statements_->ownerOf;
  owner.bind(1, id);
  MOE_RETURN_IF_ERROR(owner.step().status());
  std::string name = owner.text(0);
  owner.reset();
  // A run must be able to end even where its client has no room left.
  if (from == status)
    MOE_RETURN_IF_ERROR(checkLimits(name));
  MOE_RETURN_IF_ERROR(transaction.commit());
  return true;
}

StatusOr<bool> ObjectStore::remove(std::string_view kind, std::string_view id,
                                   std::string_view owner) {
  std::lock_guard lock(mutex_);
  SqliteStatement &row = statements_->remove;
  row.bind(1, id);
  row.bind(2, kind);
  row.bind(3, owner);
  MOE_RETURN_IF_ERROR(row.run());
  return database_.changes() > 0;
}

Status ObjectStore::trim(std::string_view kind, std::string_view owner,
                         uint64_t objects, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  while (true) {
    SqliteStatement &sums = statements_->kindSums;
    sums.bind(1, owner);
    sums.bind(2, kind);
    MOE_ASSIGN_OR_RETURN(bool hasRow, sums.step());
    bool isOver = hasRow && (uint64_t(sums.integer(0)) > objects ||
                             uint64_t(sums.integer(1)) > bytes);
    sums.reset();
    if (!isOver)
      return Status::ok();
    SqliteStatement &oldest = statements_->removeOldest;
    oldest.bind(1, kind);
    oldest.bind(2, owner);
    MOE_RETURN_IF_ERROR(oldest.run());
    if (database_.changes() == 0)
      return Status::ok();
  }
}

StatusOr<std::vector<StoredObject>>
ObjectStore::withStatus(std::string_view kind, std::string_view status) {
  std::lock_guard lock(mutex_);
  statements_->withStatus.bind(1, kind);
  statements_->withStatus.bind(2, status);
  return readRows(statements_->withStatus);
}

void ObjectStore::tidy() {
  std::lock_guard lock(mutex_);
  if (database_.logPages() > kLongLog)
    database_.checkpoint();
}

} // namespace moert
