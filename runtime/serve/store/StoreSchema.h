//===- StoreSchema.h - Tables of the object store ---------------*- C++ -*-===//

#ifndef MOE_RUNTIME_SERVE_STORE_STORESCHEMA_H
#define MOE_RUNTIME_SERVE_STORE_STORESCHEMA_H

#include "runtime/serve/store/Sqlite.h"

namespace moert {

/// Makes the tables of a new database, or brings those of an older version up
/// to date, in one transaction each. Fails with WrongMachine for a newer
/// version, and with InvalidFile for the database of another program.
Status makeStoreTables(const SqliteDatabase &database);

} // namespace moert

#endif // MOE_RUNTIME_SERVE_STORE_STORESCHEMA_H
