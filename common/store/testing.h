// What tests do to an embedded store behind its back.
#pragma once

#include <sqlite3.h>

#include <catch2/catch.hpp>
#include <string>

#include "common/store/sqlite.h"

namespace warpsmith::store::testing {

// Makes a new store one of schema 3, and of schema 2. What it holds in bulk files is lost.
inline constexpr char kToSchema3[] =
    "ALTER TABLE blobs DROP COLUMN file; ALTER TABLE blobs DROP COLUMN place; "
    "ALTER TABLE blobs DROP COLUMN size; ALTER TABLE facts DROP COLUMN file; "
    "ALTER TABLE facts DROP COLUMN place; ALTER TABLE facts DROP COLUMN size; "
    "DELETE FROM meta WHERE name IN ('blobs_file', 'blobs_end', 'facts_file', 'facts_end'); "
    "UPDATE meta SET value = 3 WHERE name = 'schema'; ";
inline constexpr char kFromSchema3To2[] =
    "DROP TABLE archive; DELETE FROM meta WHERE name = 'archive_rows'; "
    "UPDATE meta SET value = 2 WHERE name = 'schema'; ";

// Does `sql`, which changes something, to the database in the folder.
inline void Do(const std::string& dir, const std::string& sql) {
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open((dir + "/" + kDatabase).c_str(), &db) == SQLITE_OK);
  char* error = nullptr;
  sqlite3_exec(db, sql.c_str(), nullptr, nullptr, &error);
  INFO(sql << ": " << (error == nullptr ? "" : error));
  REQUIRE(error == nullptr);
  CHECK(sqlite3_changes(db) > 0);
  sqlite3_close(db);
}

}  // namespace warpsmith::store::testing
