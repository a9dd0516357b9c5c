#include "common/telemetry/metrics.h"

#include <dirent.h>
#include <prometheus/text_serializer.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "common/base/file.h"
#include "common/telemetry/log.h"

namespace warpsmith::telemetry {
namespace {

using enum MetricKind;

constexpr Metric kProcessMetrics[] = {
    {"process_cpu_seconds_total", kCounter, "", "Processor time, of user and system together."},
    {"process_resident_memory_bytes", kGauge, "", "Memory that is in use."},
    {"process_open_fds", kGauge, "", "File descriptors that are open."},
    {"process_max_fds", kGauge, "", "File descriptors that may be."},
    {"process_start_time_seconds", kGauge, "", "When it was started, in seconds since 1970."},
    {"warpsmith_log_lines_dropped_total", kCounter, "why",
     "Lines that are not in the log: by its limit, or since nobody read them (slow)."},
    {"warpsmith_disk_available_bytes", kGauge, "",
     "What it may still write to the file system of its folder (--dir)."},
    {"warpsmith_disk_size_bytes", kGauge, "", "Size of that file system."},
    {"warpsmith_build_info", kGauge, "component, version", "1; its labels say what runs."},
    {"warpsmith_certificate_expiry_timestamp_seconds", kGauge, "",
     "When this process' certificate, its authority's or its list of revocations ends, whichever "
     "is first, in seconds since 1970; not there without one."},
};

double Ticks(double ticks) { return ticks / static_cast<double>(sysconf(_SC_CLK_TCK)); }

// When this machine was started, in seconds since 1970.
double BootTime() {
  const absl::StatusOr<std::string> stat = base::ReadFile("/proc/stat");
  if (!stat.ok()) return 0;
  double boot = 0;
  for (const absl::string_view line : absl::StrSplit(*stat, '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    if (words.size() == 2 && words[0] == "btime") (void)absl::SimpleAtod(words[1], &boot);
  }
  return boot;
}

// The words of /proc/self/stat after the program's name, of which the first is the third of all.
std::vector<double> OwnStat() {
  std::vector<double> words(50);
  const absl::StatusOr<std::string> stat = base::ReadFile("/proc/self/stat");
  if (!stat.ok()) return words;
  const size_t after = stat->rfind(')');
  if (after == std::string::npos) return words;
  size_t i = 0;
  for (const absl::string_view word :
       absl::StrSplit(stat->substr(after + 1), ' ', absl::SkipWhitespace())) {
    if (i < words.size() && !absl::SimpleAtod(word, &words[i])) words[i] = 0;
    ++i;
  }
  return words;
}
// proc(5) counts from 1.
constexpr size_t kUserTime = 14 - 3, kSystemTime = 15 - 3, kStartTime = 22 - 3, kPages = 24 - 3;

// What is counted elsewhere.
void Reach(prometheus::Counter& counter, double value) {
  if (value > counter.Value()) counter.Increment(value - counter.Value());
}

double OpenFiles() {
  // Linux 6.2 and newer say it; to count 10,000 takes it some milliseconds.
  struct stat all = {};
  if (stat("/proc/self/fd", &all) == 0 && all.st_size > 0) return static_cast<double>(all.st_size);
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  double count = -3;  // ".", ".." and the folder
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

}  // namespace

const std::vector<double> kSecondsBuckets = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                             0.5,   1,      2.5,   5,    10,    25,   50,  100};

absl::Span<const Metric> ProcessMetrics() { return kProcessMetrics; }

struct Metrics::Family {
  const Metric* metric = nullptr;
  std::vector<std::string> labels;
  prometheus::Family<prometheus::Counter>* counters = nullptr;
  prometheus::Family<prometheus::Gauge>* gauges = nullptr;
  prometheus::Family<prometheus::Histogram>* histograms = nullptr;
};

Metrics::Metrics(absl::Span<const Metric> table, const std::string& component,
                 const std::string& version) {
  for (const auto& part : {ProcessMetrics(), table}) {
    for (const Metric& metric : part) {
      auto family = std::make_unique<Family>();
      family->metric = &metric;
      family->labels = absl::StrSplit(metric.labels, ", ", absl::SkipEmpty());
      switch (metric.kind) {
        case kCounter:
          family->counters =
              &prometheus::BuildCounter().Name(metric.name).Help(metric.help).Register(registry_);
          break;
        case kGauge:
          family->gauges =
              &prometheus::BuildGauge().Name(metric.name).Help(metric.help).Register(registry_);
          break;
        case kHistogram:
          family->histograms =
              &prometheus::BuildHistogram().Name(metric.name).Help(metric.help).Register(registry_);
          break;
      }
      const bool once = families_.emplace(metric.name, std::move(family)).second;
      WS_CHECK(once, "a metric stands twice in its table");
      // What never happened is 0 and not absent: a rate of it can be asked for.
      if (*metric.labels != '\0') continue;
      if (metric.kind == kCounter) Counter(metric.name);
      if (metric.kind == kHistogram) Histogram(metric.name);
    }
  }
  Gauge("warpsmith_build_info", {component, version}).Set(1);
}

Metrics::~Metrics() = default;

const Metrics::Family& Metrics::Find(absl::string_view name, MetricKind kind) const {
  const auto found = families_.find(name);
  WS_CHECK(found != families_.end() && found->second->metric->kind == kind,
           "a metric that is not in the table, or of another kind");
  return *found->second;
}

prometheus::Labels Metrics::LabelsOf(const Family& family, const std::vector<std::string>& values) {
  WS_CHECK(values.size() == family.labels.size(), "a metric has one value for each of its labels");
  prometheus::Labels labels;
  for (size_t i = 0; i < values.size(); ++i) labels.emplace(family.labels[i], values[i]);
  return labels;
}

prometheus::Counter& Metrics::Counter(absl::string_view name,
                                      const std::vector<std::string>& values) {
  const Family& family = Find(name, kCounter);
  return family.counters->Add(LabelsOf(family, values));
}

prometheus::Gauge& Metrics::Gauge(absl::string_view name, const std::vector<std::string>& values) {
  const Family& family = Find(name, kGauge);
  return family.gauges->Add(LabelsOf(family, values));
}

prometheus::Histogram& Metrics::Histogram(absl::string_view name,
                                          const std::vector<std::string>& values) {
  const Family& family = Find(name, kHistogram);
  return family.histograms->Add(LabelsOf(family, values), kSecondsBuckets);
}

void Metrics::CertificateEnds(absl::Time at) {
  if (at == absl::InfiniteFuture()) return;
  Gauge("warpsmith_certificate_expiry_timestamp_seconds")
      .Set(static_cast<double>(absl::ToUnixSeconds(at)));
}

void Metrics::Keeps(std::string folder) {
  absl::MutexLock lock(&reading_);
  folder_ = std::move(folder);
}

void Metrics::ReadDisk() {
  struct statvfs disk = {};
  if (folder_.empty() || statvfs(folder_.c_str(), &disk) != 0) return;
  const auto bytes = [&](fsblkcnt_t blocks) {
    return static_cast<double>(blocks) * static_cast<double>(disk.f_frsize);
  };
  Gauge("warpsmith_disk_available_bytes").Set(bytes(disk.f_bavail));
  Gauge("warpsmith_disk_size_bytes").Set(bytes(disk.f_blocks));
}

void Metrics::ReadProcess() {
  absl::MutexLock lock(&reading_);  // who reads beside it would count the same twice
  const std::vector<double> stat = OwnStat();
  prometheus::Counter& cpu = Counter("process_cpu_seconds_total");
  const double used = Ticks(stat[kUserTime] + stat[kSystemTime]);
  Reach(cpu, used);
  Reach(Counter("warpsmith_log_lines_dropped_total", {"limit"}),
        static_cast<double>(LinesLeftOut()));
  Reach(Counter("warpsmith_log_lines_dropped_total", {"slow"}),
        static_cast<double>(LinesDropped()));
  Gauge("process_resident_memory_bytes")
      .Set(stat[kPages] * static_cast<double>(sysconf(_SC_PAGESIZE)));
  Gauge("process_open_fds").Set(OpenFiles());
  rlimit files = {};
  getrlimit(RLIMIT_NOFILE, &files);
  Gauge("process_max_fds").Set(static_cast<double>(files.rlim_cur));
  ReadDisk();
  static const double boot = BootTime();
  Gauge("process_start_time_seconds").Set(boot + Ticks(stat[kStartTime]));
}

void Metrics::Publish(absl::string_view name, const std::vector<Sample>& samples) {
  const Family& of = Find(name, kGauge);
  prometheus::MetricFamily family;
  family.name = of.metric->name;
  family.help = of.metric->help;
  family.type = prometheus::MetricType::Gauge;
  family.metric.reserve(samples.size());
  for (const Sample& sample : samples) {
    WS_CHECK(sample.values.size() == of.labels.size(),
             "a sample has one value for each label of its metric");
    prometheus::ClientMetric& one = family.metric.emplace_back();
    one.gauge.value = sample.value;
    for (size_t i = 0; i < of.labels.size(); ++i) {
      one.label.push_back({of.labels[i], sample.values[i]});
    }
  }
  absl::MutexLock lock(&mutex_);
  published_[family.name] = std::move(family);
}

std::string Metrics::Text() {
  ReadProcess();
  std::vector<prometheus::MetricFamily> families = registry_.Collect();
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [name, family] : published_) {
      if (!family.metric.empty()) families.push_back(family);
    }
  }
  return prometheus::TextSerializer().Serialize(families);
}

std::string Markdown(absl::Span<const Metric> table) {
  constexpr const char* kKinds[] = {"counter", "gauge", "histogram"};
  std::string text = "| metric | kind | labels | meaning |\n|---|---|---|---|\n";
  for (const Metric& metric : table) {
    absl::StrAppend(&text, "| `", metric.name, "` | ", kKinds[static_cast<int>(metric.kind)], " | ",
                    metric.labels, " | ", metric.help, " |\n");
  }
  return text;
}

}  // namespace warpsmith::telemetry
