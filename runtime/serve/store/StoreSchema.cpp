#include "runtime/serve/store/StoreSchema.h"

#include <fmt/format.h>
#include <iterator>

namespace moert {

namespace {
/// The application id in the header of the database file.
constexpr int64_t kApplication = 0x6D6F6572; // The characters "moer".

/// Each entry brings a database from the version before, which is in its
/// user_version, to the next. Entries never change once they have shipped.
constexpr const char *kMigrations[] = {
    // Numbers are not used again, so that they order objects by age. The sums
    // by owner and kind are kept by triggers, which cascades fire too. The
    // index `active` allows a thread one run that is not over.
    R"(
CREATE TABLE objects (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL,
  owner TEXT NOT NULL,
  parent TEXT REFERENCES objects (id) ON DELETE CASCADE,
  status TEXT NOT NULL,
  tag TEXT NOT NULL,
  created INTEGER NOT NULL,
  body TEXT NOT NULL
);
CREATE INDEX lists ON objects (kind, owner, parent, number);
CREATE INDEX parts ON objects (parent);
CREATE UNIQUE INDEX active ON objects (parent)
  WHERE kind = 'run' AND status IN ('queued', 'in_progress', 'requires_action');
CREATE TABLE sums (
  owner TEXT NOT NULL,
  kind TEXT NOT NULL,
  objects INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  PRIMARY KEY (owner, kind)
) WITHOUT ROWID;
CREATE TRIGGER sum_added AFTER INSERT ON objects BEGIN
  INSERT INTO sums VALUES (new.owner, new.kind, 1,
                           length(CAST(new.body AS BLOB)))
    ON CONFLICT DO UPDATE SET objects = objects + 1,
                              bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER sum_removed AFTER DELETE ON objects BEGIN
  UPDATE sums SET objects = objects - 1,
                  bytes = bytes - length(CAST(old.body AS BLOB))
    WHERE owner = old.owner AND kind = old.kind;
END;
CREATE TRIGGER sum_changed AFTER UPDATE OF body ON objects BEGIN
  UPDATE sums SET bytes = bytes + length(CAST(new.body AS BLOB))
                                - length(CAST(old.body AS BLOB))
    WHERE owner = old.owner AND kind = old.kind;
END;
)",
};
constexpr int64_t kVersion = std::size(kMigrations);
} // namespace

Status makeStoreTables(const SqliteDatabase &database) {
  MOE_ASSIGN_OR_RETURN(int64_t version,
                       database.integer("PRAGMA user_version"));
  MOE_ASSIGN_OR_RETURN(int64_t application,
                       database.integer("PRAGMA application_id"));
  MOE_ASSIGN_OR_RETURN(int64_t tables,
                       database.integer("SELECT count(*) FROM sqlite_schema"));
  if (application != kApplication && (tables > 0 || version > 0))
    return Status(StatusCode::InvalidFile,
                  "this is the database of another program: give a file that "
                  "does not exist yet");
  if (version > kVersion)
    return Status(
        StatusCode::WrongMachine,
        fmt::format("a newer moert wrote this database (version {}; this one "
                    "knows up to {}): use that one, or another file",
                    version, kVersion));
  for (int64_t next = version; next < kVersion; ++next) {
    MOE_ASSIGN_OR_RETURN(SqliteTransaction transaction,
                         SqliteTransaction::begin(database));
    MOE_RETURN_IF_ERROR(database.run(kMigrations[next]));
    MOE_RETURN_IF_ERROR(database.run(fmt::format("PRAGMA application_id = {};"
                                                 "PRAGMA user_version = {};",
                                                 kApplication, next + 1)
                                         .c_str()));
    MOE_RETURN_IF_ERROR(transaction.commit());
  }
  return Status::ok();
}

} // namespace moert
