// Rows by name, in the order of their last change: what a reader has not seen yet is found without
// looking at what it has.
//
//   Ledger ledger(1'000);
//   ledger.Set("r1/gelu@host", "[...]", 7);     // at 7, which never falls
//   ledger.Erase("r1/silu@host", 8);
//   ledger.ForEachSince(6, [](const Row& row) { ... });   // newest first, also what is gone
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <unordered_map>

namespace warpsmith::web {

struct Row {
  std::string id;
  std::string json;  // "": it is gone
  int64_t at = 0;
};

class Ledger {
 public:
  // Of what is gone so much is remembered.
  explicit Ledger(size_t max_gone) : max_gone_(max_gone) {}

  // Whether that changes anything.
  bool Set(const std::string& id, std::string json, int64_t at);
  bool Erase(const std::string& id, int64_t at);
  // Null: it is not there.
  const std::string* Find(const std::string& id) const;
  // Whether it still knows all that went after `at`.
  bool Knows(int64_t at) const { return at >= forgotten_; }
  size_t size() const { return rows_.size() - gone_.size(); }

  template <typename Visit>
  void ForEachSince(int64_t at, Visit visit) const {
    for (const Row& row : rows_) {
      if (row.at <= at) break;
      visit(row);
    }
  }

 private:
  const size_t max_gone_;
  std::list<Row> rows_;          // newest change first
  std::list<std::string> gone_;  // newest first
  struct Place {
    std::list<Row>::iterator row;
    std::list<std::string>::iterator gone;
  };
  std::unordered_map<std::string, Place> places_;
  int64_t forgotten_ = 0;  // when the newest went that is not remembered
};

}  // namespace warpsmith::web
