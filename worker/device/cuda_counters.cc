#include "worker/device/cuda_counters.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"

namespace warpsmith::device {
namespace {

// Runs of a plan that reading may take; more says that CUPTI does not come to an end.
constexpr int kMaxPasses = 64;

constexpr double kNanosecondsAMicrosecond = 1e3;
constexpr double kPercent = 100;

#define WS_CUPTI(call)                                                              \
  do {                                                                              \
    ::absl::Status ws_cupti_status = ToStatus(cupti_, cupti_.call, "CUPTI " #call); \
    if (!ws_cupti_status.ok()) return ws_cupti_status;                              \
  } while (false)

// A field of v1::Counters and the metric that it is.
struct Field {
  const char* metric;
  void (v1::Counters::*set)(double);
  double divisor;
};

const std::vector<Field>& Fields() {
  static const auto* fields = new std::vector<Field>{
      {"gpu__time_duration.sum", &v1::Counters::set_gpu_us, kNanosecondsAMicrosecond},
      {"dram__bytes_read.sum", &v1::Counters::set_dram_read_bytes, 1},
      {"dram__bytes_write.sum", &v1::Counters::set_dram_written_bytes, 1},
      {"dram__throughput.avg.pct_of_peak_sustained_elapsed", &v1::Counters::set_dram_throughput,
       kPercent},
      {"lts__t_sector_hit_rate.pct", &v1::Counters::set_l2_hit_rate, kPercent},
      {"sm__cycles_active.avg.pct_of_peak_sustained_elapsed", &v1::Counters::set_sm_active,
       kPercent},
      {"smsp__issue_active.avg.pct_of_peak_sustained_active", &v1::Counters::set_issue_active,
       kPercent},
      {"sm__warps_active.avg.pct_of_peak_sustained_active", &v1::Counters::set_warps_active,
       kPercent},
      {"l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed",
       &v1::Counters::set_lsu_throughput, kPercent},
      {"sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
       &v1::Counters::set_tensor_active, kPercent},
      {"sm__inst_executed_pipe_fp64.avg.pct_of_peak_sustained_active",
       &v1::Counters::set_fp64_active, kPercent},
      {"sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",
       &v1::Counters::set_special_active, kPercent},
  };
  return *fields;
}

constexpr char kConflicts[] = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum";
constexpr char kSharedWavefronts[] = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum";

}  // namespace

std::vector<std::string> CounterMetrics() {
  std::vector<std::string> metrics = {kConflicts, kSharedWavefronts};
  for (const Field& field : Fields()) metrics.push_back(field.metric);
  return metrics;
}

v1::Counters CountersOf(const std::vector<std::string>& metrics,
                        const std::vector<double>& values) {
  std::map<std::string, double> by_name;
  for (size_t i = 0; i < metrics.size() && i < values.size(); ++i) by_name[metrics[i]] = values[i];
  v1::Counters counters;
  for (const Field& field : Fields()) {
    const auto found = by_name.find(field.metric);
    if (found == by_name.end()) continue;
    const double value = found->second / field.divisor;
    // Parts of a ratio may come from different runs.
    (counters.*field.set)(field.divisor == kPercent ? std::min(value, 1.0) : value);
  }
  const double wavefronts = by_name[kSharedWavefronts];
  if (wavefronts > 0) counters.set_bank_conflicts(by_name[kConflicts] / wavefronts);
  return counters;
}

void RelateToKernel(double us, v1::Counters& counters) {
  if (us <= 0 || counters.gpu_us() <= us) return;
  const double longer = counters.gpu_us() / us;
  counters.set_dram_throughput(std::min(1.0, counters.dram_throughput() * longer));
  counters.set_sm_active(std::min(1.0, counters.sm_active() * longer));
  counters.set_lsu_throughput(std::min(1.0, counters.lsu_throughput() * longer));
}

absl::StatusOr<std::unique_ptr<CudaCounters>> CudaCounters::Make(
    std::shared_ptr<CudaContext> context, const std::string& beside) {
  auto loaded = cupti::Load(cupti::Candidates(beside));
  if (!loaded.ok()) return loaded.status();
  const cupti::Library& cupti_ = **loaded;
  if (auto status = ToStatus(cupti_, cupti::Initialize(cupti_), "CUPTI Initialize"); !status.ok())
    return status;
  auto chip = cupti::Make<cupti::ChipName>();
  chip.device = context->ordinal();
  WS_CUPTI(GetChipName(&chip));
  auto available = cupti::Make<cupti::Availability>();
  WS_CUPTI(GetAvailability(&available));
  std::string image(available.image_bytes, '\0');
  available.image = reinterpret_cast<uint8_t*>(image.data());
  WS_CUPTI(GetAvailability(&available));
  auto schedule = cupti::Plan(cupti_, chip.name, CounterMetrics(), image);
  if (!schedule.ok()) return schedule.status();
  return std::unique_ptr<CudaCounters>(
      new CudaCounters(std::move(context), cupti_, std::move(image), *std::move(schedule)));
}

absl::Status CudaCounters::End(std::unique_ptr<CudaCounters> counters) {
  const cupti::Library& cupti = counters->cupti_;
  counters.reset();
  return ToStatus(cupti, cupti.Finalize(), "CUPTI Finalize");
}

absl::StatusOr<std::vector<std::optional<v1::Counters>>> CudaCounters::Read(
    const std::vector<bool>& counted, const Run& run) {
  const auto kernels = static_cast<size_t>(std::count(counted.begin(), counted.end(), true));
  if (kernels == 0) return std::vector<std::optional<v1::Counters>>(counted.size());
  auto enable = cupti::Make<cupti::RangeEnable>();
  WS_CUPTI(RangeEnable(&enable));
  auto read = ReadEnabled(enable.ranges, counted, kernels, run);
  if (context_->lost()) return read;
  auto disable = cupti::Make<cupti::RangeCall>();
  disable.ranges = enable.ranges;
  const absl::Status off = ToStatus(cupti_, cupti_.RangeDisable(&disable), "CUPTI RangeDisable");
  if (off.ok()) return read;
  // All that is timed from now on would be timed with it.
  context_->Lose(absl::AbortedError(off.message()));
  return absl::AbortedError(off.message());
}

absl::StatusOr<std::vector<std::optional<v1::Counters>>> CudaCounters::ReadEnabled(
    cupti::RangeObject ranges, const std::vector<bool>& counted, size_t kernels, const Run& run) {
  auto data = MakeData(ranges, kernels);
  if (!data.ok()) return data.status();
  auto config = cupti::Make<cupti::RangeConfig>();
  config.ranges = ranges;
  config.config = reinterpret_cast<const uint8_t*>(schedule_.config.data());
  config.config_bytes = schedule_.config.size();
  config.data = reinterpret_cast<uint8_t*>(data->data());
  config.data_bytes = data->size();
  config.ranges_per_pass = kernels;
  WS_CUPTI(RangeConfigure(&config));
  if (absl::Status status = RunPasses(ranges, counted, run); !status.ok()) return status;
  auto counters = Decode(ranges, *data, kernels);
  if (!counters.ok()) return counters.status();
  std::vector<std::optional<v1::Counters>> read(counted.size());
  size_t next = 0;
  for (size_t i = 0; i < counted.size(); ++i) {
    if (counted[i]) read[i] = (*counters)[next++];
  }
  return read;
}

absl::StatusOr<std::string> CudaCounters::MakeData(cupti::RangeObject ranges, size_t kernels) {
  std::vector<const char*> names;
  for (const std::string& metric : schedule_.metrics) names.push_back(metric.c_str());
  auto size = cupti::Make<cupti::DataSize>();
  size.ranges = ranges;
  size.names = names.data();
  size.count = names.size();
  size.most_ranges = kernels;
  size.most_nodes = static_cast<uint32_t>(kernels);
  WS_CUPTI(RangeDataSize(&size));
  std::string data(size.bytes, '\0');
  auto initialize = cupti::Make<cupti::DataInitialize>();
  initialize.ranges = ranges;
  initialize.data = reinterpret_cast<uint8_t*>(data.data());
  initialize.bytes = data.size();
  WS_CUPTI(RangeDataInitialize(&initialize));
  return data;
}

absl::Status CudaCounters::RunPasses(cupti::RangeObject ranges, const std::vector<bool>& counted,
                                     const Run& run) {
  const Around around = [&](int kernel, const std::function<absl::Status()>& launch) {
    if (!counted[kernel]) return launch();
    const std::string name = absl::StrCat(kernel);
    auto push = cupti::Make<cupti::RangePush>();
    push.ranges = ranges;
    push.name = name.c_str();
    WS_CUPTI(RangePush(&push));
    absl::Status launched = launch();
    if (context_->lost()) return launched;
    auto pop = cupti::Make<cupti::RangeCall>();
    pop.ranges = ranges;
    WS_CUPTI(RangePop(&pop));
    return launched;
  };
  for (int pass = 0; pass < kMaxPasses; ++pass) {
    auto start = cupti::Make<cupti::RangeCall>();
    start.ranges = ranges;
    WS_CUPTI(RangeStart(&start));
    const absl::Status ran = run(around);
    if (context_->lost()) return ran;
    auto stop = cupti::Make<cupti::RangeStop>();
    stop.ranges = ranges;
    WS_CUPTI(RangeStop(&stop));
    if (!ran.ok()) return ran;
    if (stop.all_submitted != 0) return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat("CUPTI wanted more than ", kMaxPasses, " runs for ",
                                          schedule_.passes, " passes"));
}

absl::StatusOr<std::vector<v1::Counters>> CudaCounters::Decode(cupti::RangeObject ranges,
                                                               std::string& data, size_t kernels) {
  auto decode = cupti::Make<cupti::Decode>();
  decode.ranges = ranges;
  WS_CUPTI(RangeDecode(&decode));
  auto info = cupti::Make<cupti::DataInfo>();
  info.data = reinterpret_cast<const uint8_t*>(data.data());
  info.data_bytes = data.size();
  WS_CUPTI(RangeDataInfo(&info));
  if (info.ranges != kernels) {
    return absl::InternalError(
        absl::StrCat("CUPTI counted ", info.ranges, " kernels of ", kernels));
  }
  std::vector<const char*> names;
  for (const std::string& metric : schedule_.metrics) names.push_back(metric.c_str());
  std::vector<v1::Counters> counters;
  for (size_t range = 0; range < kernels; ++range) {
    std::vector<double> values(names.size(), 0);
    auto evaluate = cupti::Make<cupti::Evaluate>();
    evaluate.host = schedule_.host->get();
    evaluate.data = reinterpret_cast<const uint8_t*>(data.data());
    evaluate.data_bytes = data.size();
    evaluate.range = range;
    evaluate.names = names.data();
    evaluate.count = names.size();
    evaluate.values = values.data();
    WS_CUPTI(HostEvaluate(&evaluate));
    counters.push_back(CountersOf(schedule_.metrics, values));
  }
  return counters;
}

}  // namespace warpsmith::device
