#include "worker/codegen/codegen.h"
namespace warpsmith::codegen {
std::vector<std::string> ApplicableRewrites(const graph::Graph&) { return {}; }
absl::StatusOr<graph::Graph> Rewrite(const graph::Graph& graph, const google::protobuf::RepeatedPtrField<std::string>&) { return graph; }
}
