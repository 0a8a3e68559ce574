//===- Sqlite.h - SQLite with errors as values ------------------*- C++ -*-===//
//
// Handles that own what SQLite gives out, and errors that name the database's
// file. A connection and its statements belong to one thread at a time.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_RUNTIME_SERVE_STORE_SQLITE_H
#define MOE_RUNTIME_SERVE_STORE_SQLITE_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

struct sqlite3;
struct sqlite3_stmt;

namespace moert {

/// A prepared statement. Its parameters are numbered from 1, its columns from
/// 0.
class SqliteStatement {
public:
  void bind(int parameter, int64_t value);
  /// A copy of `text` is bound.
  void bind(int parameter, std::string_view text);
  void bindNull(int parameter);

  /// Takes the next row; false after the last one. Fails with DoesNotFit if the
  /// disk is full, with Usage if the row breaks a constraint, otherwise with
  /// Io.
  StatusOr<bool> step();
  /// Calls step() for a statement without rows, and reset().
  Status run();
  /// Makes the statement ready to be bound and run again. Must follow the last
  /// step(), as a statement in the middle of its rows holds a lock.
  void reset();

  int64_t integer(int column) const;
  std::string text(int column) const;

private:
  friend class SqliteDatabase;
  struct Finalize {
    void operator()(sqlite3_stmt *statement) const;
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  std::string place_;
};

/// A connection.
class SqliteDatabase {
public:
  /// Opens the file, which is created if it does not exist and which no other
  /// user can read then; "" is a database in memory. Other processes are kept
  /// out. Fails with InvalidFile if the file is no database, with Usage if
  /// another process has it, otherwise with Io.
  static StatusOr<SqliteDatabase> open(const std::string &path);

  StatusOr<SqliteStatement> prepare(std::string_view sql) const;
  /// Runs statements that take no parameters and give no rows that matter.
  Status run(const char *sql) const;
  /// The integer that a statement gives in its first row.
  StatusOr<int64_t> integer(std::string_view sql) const;
  /// Rows that the last statement changed, without those of triggers.
  int64_t changes() const;
  /// Writes what the log has to the database and empties it.
  void checkpoint() const;
  /// Pages of the log after the last commit.
  int logPages() const { return *logPages_; }

private:
  struct Close {
    void operator()(sqlite3 *database) const;
  };
  std::unique_ptr<sqlite3, Close> database_;
  /// SQLite's hook writes the number of pages here.
  std::unique_ptr<int> logPages_;
  std::string place_;
};

/// The effects of a transaction are undone unless it was committed.
class SqliteTransaction {
public:
  static StatusOr<SqliteTransaction> begin(const SqliteDatabase &database);
  SqliteTransaction(SqliteTransaction &&other)
      : database_(std::exchange(other.database_, nullptr)) {}
  SqliteTransaction &operator=(SqliteTransaction &&) = delete;
  ~SqliteTransaction();

  Status commit();

private:
  explicit SqliteTransaction(const SqliteDatabase &database)
      : database_(&database) {}
  const SqliteDatabase *database_; ///< Null after the end of the transaction.
};

} // namespace moert

#endif // MOE_RUNTIME_SERVE_STORE_SQLITE_H
