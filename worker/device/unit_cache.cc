#include "worker/device/unit_cache.h"

#include <utility>

#include "common/base/sha256.h"
#include "common/problem/units.h"

namespace warpsmith::device {

void UnitCache::Submit(const std::string& source, absl::Duration limit, Callback done) {
  std::vector<std::string> units = problem::UnitsOf(source);
  auto program = std::make_shared<Program>();
  program->units.assign(units.size(), absl::UnknownError("not compiled"));
  program->done = std::move(done);
  std::vector<std::pair<std::string, std::string>> wanted;  // by key
  bool complete = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (size_t i = 0; i < units.size(); ++i) {
      std::string key = base::Sha256Hex(units[i]);
      if (const auto known = known_.find(key); known != known_.end()) {
        program->units[i] = known->second.binary;
        by_age_.splice(by_age_.begin(), by_age_, known->second.age);
        continue;
      }
      ++program->missing;
      std::vector<Wait>& waits = under_way_[key];
      waits.push_back({program, i});
      if (waits.size() == 1) wanted.emplace_back(std::move(key), std::move(units[i]));
    }
    complete = program->missing == 0;  // and nobody else has it
  }
  if (complete) return program->done(Join(*program));
  for (auto& [key, unit] : wanted) {
    compile_(std::move(unit), limit,
             [this, key = key](absl::StatusOr<Binary> result) { Finish(key, std::move(result)); });
  }
}

void UnitCache::Finish(const std::string& key, absl::StatusOr<Binary> result) {
  std::vector<std::shared_ptr<Program>> complete;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto waits = under_way_.extract(key);
    for (const Wait& wait : waits.mapped()) {
      wait.program->units[wait.unit] = result;
      // Whose program asked first has paid for it.
      if (result.ok()) result->report.set_compile_ms(0);
      if (--wait.program->missing == 0) complete.push_back(wait.program);
    }
    if (result.ok()) Keep(key, *result);
  }
  for (const auto& program : complete) program->done(Join(*program));
}

void UnitCache::Keep(const std::string& key, const Binary& binary) {
  const auto size = static_cast<int64_t>(binary.bytes.size());
  if (size > most_bytes_ || known_.count(key) > 0) return;
  by_age_.push_front(key);
  known_[key] = {binary, by_age_.begin()};
  bytes_ += size;
  while (bytes_ > most_bytes_) {
    const auto oldest = known_.find(by_age_.back());
    bytes_ -= static_cast<int64_t>(oldest->second.binary.bytes.size());
    known_.erase(oldest);
    by_age_.pop_back();
  }
}

absl::StatusOr<Binary> UnitCache::Join(const Program& program) {
  Binary joined;
  std::vector<std::string> images;
  double milliseconds = 0;
  for (const absl::StatusOr<Binary>& unit : program.units) {
    if (!unit.ok()) return unit.status();
    images.push_back(unit->bytes);
    milliseconds += unit->report.compile_ms();
    joined.report.MergeFrom(unit->report);
  }
  joined.bytes = problem::JoinImages(images);
  joined.report.set_compile_ms(milliseconds);
  return joined;
}

}  // namespace warpsmith::device
