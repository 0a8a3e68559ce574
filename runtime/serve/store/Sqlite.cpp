#include "runtime/serve/store/Sqlite.h"

#include "runtime/base/PrivateFiles.h"

#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

namespace moert {

namespace {
Status sqliteStatus(int code, std::string_view text, const std::string &place) {
  StatusCode kind = StatusCode::Io;
  std::string message(text);
  switch (code & 0xFF) {
  case SQLITE_FULL:
    kind = StatusCode::DoesNotFit;
    message += "; make room on the disk";
    break;
  case SQLITE_CONSTRAINT:
    kind = StatusCode::Usage;
    break;
  case SQLITE_BUSY:
    kind = StatusCode::Usage;
    message = "another process has this database: stop it, or use another file";
    break;
  case SQLITE_NOTADB:
  case SQLITE_CORRUPT:
    kind = StatusCode::InvalidFile;
    message += "; move the file away to begin with an empty database";
    break;
  }
  return Status(kind, std::move(message)).at(place);
}

Status lastError(sqlite3 *database, const std::string &place) {
  return sqliteStatus(sqlite3_extended_errcode(database),
                      sqlite3_errmsg(database), place);
}
} // namespace

void SqliteStatement::Finalize::operator()(sqlite3_stmt *statement) const {
  sqlite3_finalize(statement);
}

// Binding fails only for a parameter that does not exist or for a text beyond
// SQLite's limit of 1 GB; the statement then has NULL there and breaks the
// column's NOT NULL.
void SqliteStatement::bind(int parameter, int64_t value) {
  (void)sqlite3_bind_int64(statement_.get(), parameter, value);
}

void SqliteStatement::bind(int parameter, std::string_view text) {
  (void)sqlite3_bind_text64(statement_.get(), parameter,
                            text.empty() ? "" : text.data(), text.size(),
                            SQLITE_TRANSIENT, SQLITE_UTF8);
}

void SqliteStatement::bindNull(int parameter) {
  (void)sqlite3_bind_null(statement_.get(), parameter);
}

StatusOr<bool> SqliteStatement::step() {
  int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW)
    return true;
  if (code == SQLITE_DONE)
    return false;
  Status status = lastError(sqlite3_db_handle(statement_.get()), place_);
  reset();
  return status;
}

Status SqliteStatement::run() {
  StatusOr<bool> hasRow = step();
  reset();
  return hasRow.status();
}

void SqliteStatement::reset() {
  // Returns the error of the last step, which has been reported.
  (void)sqlite3_reset(statement_.get());
}

int64_t SqliteStatement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

std::string SqliteStatement::text(int column) const {
  const unsigned char *text = sqlite3_column_text(statement_.get(), column);
  if (!text)
    return {};
  return {reinterpret_cast<const char *>(text),
          size_t(sqlite3_column_bytes(statement_.get(), column))};
}

void SqliteDatabase::Close::operator()(sqlite3 *database) const {
  sqlite3_close_v2(database);
}

StatusOr<SqliteDatabase> SqliteDatabase::open(const std::string &path) {
  SqliteDatabase result;
  result.place_ = path.empty() ? "database in memory" : path;
  result.logPages_ = std::make_unique<int>(0);
  // SQLite gives its log the mode of the database.
  if (!path.empty())
    for (const std::string &file : {path, path + "-wal", path + "-shm"})
      if (file == path || ::access(file.c_str(), F_OK) == 0)
        MOE_RETURN_IF_ERROR(makePrivateFile(file));
  sqlite3 *database = nullptr;
  int code =
      sqlite3_open_v2(path.empty() ? ":memory:" : path.c_str(), &database,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
                          SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
                      nullptr);
  // There is a connection even after most errors.
  result.database_.reset(database);
  if (code != SQLITE_OK)
    return sqliteStatus(
        code, database ? sqlite3_errmsg(database) : sqlite3_errstr(code),
        result.place_);
  // A schema in the file must call nothing that is not SQLite's own.
  sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  // A commit is in the log, which survives the end of the process at any
  // moment; after a power cut the last commits may be missing, but no part of
  // one. In exclusive mode the log's index needs no shared memory.
  MOE_RETURN_IF_ERROR(result.run("PRAGMA locking_mode = EXCLUSIVE;"
                                 "PRAGMA journal_mode = WAL;"
                                 "PRAGMA synchronous = NORMAL;"
                                 "PRAGMA foreign_keys = ON;"
                                 "BEGIN EXCLUSIVE; COMMIT;"));
  // Setting a hook turns automatic checkpoints off.
  sqlite3_wal_hook(
      database,
      [](void *pages, sqlite3 *, const char *, int count) {
        *static_cast<int *>(pages) = count;
        return SQLITE_OK;
      },
      result.logPages_.get());
  return result;
}

StatusOr<SqliteStatement> SqliteDatabase::prepare(std::string_view sql) const {
  sqlite3_stmt *statement = nullptr;
  if (sqlite3_prepare_v3(database_.get(), sql.data(), int(sql.size()),
                         SQLITE_PREPARE_PERSISTENT, &statement,
                         nullptr) != SQLITE_OK)
    return lastError(database_.get(), place_);
  SqliteStatement result;
  result.statement_.reset(statement);
  result.place_ = place_;
  return result;
}

Status SqliteDatabase::run(const char *sql) const {
  if (sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr) !=
      SQLITE_OK)
    return lastError(database_.get(), place_);
  return Status::ok();
}

StatusOr<int64_t> SqliteDatabase::integer(std::string_view sql) const {
  MOE_ASSIGN_OR_RETURN(SqliteStatement statement, prepare(sql));
  MOE_ASSIGN_OR_RETURN(bool hasRow, statement.step());
  return hasRow ? statement.integer(0) : 0;
}

int64_t SqliteDatabase::changes() const {
  return sqlite3_changes64(database_.get());
}

void SqliteDatabase::checkpoint() const {
  // Pages that cannot be written now stay in the log.
  (void)sqlite3_wal_checkpoint_v2(database_.get(), nullptr,
                                  SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr);
  *logPages_ = 0;
}

StatusOr<SqliteTransaction>
SqliteTransaction::begin(const SqliteDatabase &database) {
  MOE_RETURN_IF_ERROR(database.run("BEGIN IMMEDIATE"));
  return SqliteTransaction(database);
}

SqliteTransaction::~SqliteTransaction() {
  if (database_)
    (void)database_->run("ROLLBACK");
}

Status SqliteTransaction::commit() {
  MOE_RETURN_IF_ERROR(database_->run("COMMIT"));
  database_ = nullptr;
  return Status::ok();
}

} // namespace moert
