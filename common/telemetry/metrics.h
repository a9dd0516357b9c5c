// What a process counts, for Prometheus. A program's metrics are a table, from which come the
// families, the page that documents them and the tests' list of what there is:
//
//   constexpr Metric kMetrics[] = {{"warpsmith_leases_granted_total", kCounter, "", "Leases ..."}};
//   Metrics metrics(kMetrics);
//   metrics.Counter("warpsmith_leases_granted_total").Increment();
//   metrics.Text();                   // what a scrape is answered
//
// Names follow Prometheus' conventions: base units at the end, counters in `_total`. No label has a
// value for each task or worker. Thread-safe; a look-up takes a lock and some hundred nanoseconds,
// so what is hot keeps the reference, which stays good.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace warpsmith::telemetry {

enum class MetricKind { kCounter, kGauge, kHistogram };

struct Metric {
  const char* name;
  MetricKind kind;
  const char* labels;  // their names, with ", " between them; "": none
  const char* help;    // a sentence
};

// Upper bounds of a histogram of seconds: 1 ms to 100 s.
extern const std::vector<double> kSecondsBuckets;

// Those of every process, and of every one with certificates; Metrics has them without being asked.
absl::Span<const Metric> ProcessMetrics();

class Metrics {
 public:
  // `table` outlives this, and names each metric once. `component` and `version` are of the build.
  Metrics(absl::Span<const Metric> table, const std::string& component, const std::string& version);
  ~Metrics();

  // Of a metric of the table, with the values of its labels, in its order.
  prometheus::Counter& Counter(absl::string_view name, const std::vector<std::string>& values = {});
  prometheus::Gauge& Gauge(absl::string_view name, const std::vector<std::string>& values = {});
  prometheus::Histogram& Histogram(absl::string_view name,
                                   const std::vector<std::string>& values = {});
  // All samples of a gauge whose labels come and go, at once, in place of those before. Such a
  // metric is published alone.
  struct Sample {
    std::vector<std::string> values;  // of its labels
    double value = 0;
  };
  void Publish(absl::string_view name, const std::vector<Sample>& samples);

  // Of this process' own certificate; called again when it changes.
  void CertificateEnds(absl::Time at);

  // Where the process keeps what has to outlive it: each scrape says how full the disk is. Once.
  void Keeps(std::string folder);

  // In Prometheus' text format, with what the process is just now.
  std::string Text();

 private:
  struct Family;
  const Family& Find(absl::string_view name, MetricKind kind) const;
  static prometheus::Labels LabelsOf(const Family& family, const std::vector<std::string>& values);
  void ReadProcess();
  void ReadDisk() ABSL_EXCLUSIVE_LOCKS_REQUIRED(reading_);

  prometheus::Registry registry_;
  absl::flat_hash_map<std::string, std::unique_ptr<Family>> families_;
  absl::Mutex reading_;
  absl::Mutex mutex_;
  std::string folder_ ABSL_GUARDED_BY(reading_);
  std::map<std::string, prometheus::MetricFamily> published_ ABSL_GUARDED_BY(mutex_);
};

// The tables as a page's rows: name, kind, labels, meaning.
std::string Markdown(absl::Span<const Metric> table);

}  // namespace warpsmith::telemetry
