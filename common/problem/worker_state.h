// What the states of workers mean.
#pragma once

namespace warpsmith::problem {

// Nothing is given to it until a person releases it. Of WorkerInfo and of WorkerRecord.
template <typename Worker>
bool IsSetAside(const Worker& worker) {
  return worker.quarantined() || worker.held();
}

}  // namespace warpsmith::problem
