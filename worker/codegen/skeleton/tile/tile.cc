#include "worker/codegen/skeleton/tile/tile.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "worker/codegen/skeleton/glue.h"
#include "worker/kernels/tile_rule.h"

namespace warpsmith::codegen {
namespace {

using absl::StrCat;

// Bytes that lie together on both sides, from which on reading in the output's order wastes little.
constexpr int64_t kWholeSectors = 64;
// The least vector of small elements that is worth it.
constexpr int64_t kVectorBytes = 4, kVectorOfBytes = 16;
// Boxes that a multiprocessor should have at once, at least; and smaller ones are not worth it.
constexpr int64_t kManyBoxes = 3, kLeastBox = 8 << 10;
// Of a box, that are worth many threads.
constexpr int kManyBytes = 16 << 10;
// A map that reads less at once, along lines shorter than that, spends its time on finding places.
constexpr int64_t kWideAccess = 8, kLongLine = 512;
// Memory fetches so much at once; a map may leave this part of it unused, or what is left is read
// before caches forget it, while so much is written.
constexpr int64_t kFetchBytes = 64, kUnusedPart = 4, kSoonBytes = 4 << 20;
// A tensor of less than this part of the largest one is read from caches, in whatever order.
constexpr int64_t kSmallPart = 16;

// A load that goes through shared memory.
struct Stream {
  int tensor = -1;
  Index index;  // over the domain's axes
};

// Whether lines of `run` elements, read in the output's order, leave much of what memory fetches to
// neighbours that are read long after.
bool WastesFetches(const Domain& domain, const Access& access, int64_t run, int64_t bytes) {
  int64_t at = std::gcd(kFetchBytes / bytes, run), outputs = 1, apart = 0;
  for (int a = static_cast<int>(domain.axes.size()) - 1; a >= 0; --a) {
    const int64_t stride = std::abs(access.stride[a]);
    if (stride == run) apart = outputs;
    if (stride >= run) at = std::gcd(at, stride);
    outputs *= domain.axes[a].extent();
  }
  return (kFetchBytes - at * bytes) * kUnusedPart > run * bytes && apart * bytes > kSoonBytes;
}

bool IsTurned(const Analysis& group, const Domain& domain, const Access& access) {
  if (access.write || !access.affine || access.guarded || access.in_loop) return false;
  const graph::Tensor& tensor = group.graph().tensors[access.tensor];
  int64_t largest = 1;
  for (int root : group.roots())
    largest = std::max(largest, group.graph().tensors[root].elements());
  if (tensor.elements() * kSmallPart < largest || domain.axes.empty()) return false;
  // What lies together on both sides: axes from the last on that follow each other in the input
  // too.
  int64_t run = 1;
  for (int a = static_cast<int>(domain.axes.size()) - 1; a >= 0; --a) {
    if (access.stride[a] == 0 && run == 1) return false;  // one element for neighbours
    if (access.stride[a] != run) break;
    run *= domain.axes[a].extent();
  }
  if (run == domain.kept()) return false;
  const int64_t bytes = graph::SizeOf(tensor.type);
  if (run * bytes < kWholeSectors) return true;
  if (run * bytes < kLongLine && std::gcd(run, kWideAccess / bytes) * bytes < kWideAccess)
    return true;
  if (WastesFetches(domain, access, run, bytes)) return true;
  // Longer lines that no vector divides: a map would read them element by element, or bytes by so
  // few that finding places takes its time.
  const int64_t vector = bytes == 1 ? kVectorOfBytes : std::max<int64_t>(2, kVectorBytes / bytes);
  return bytes < 8 && run % vector != 0;
}

std::vector<Stream> StreamsOf(const Analysis& group, const Domain& domain) {
  std::vector<Stream> streams;
  for (const Access& access : group.AccessesOf(domain)) {
    const bool known = std::any_of(streams.begin(), streams.end(), [&](const Stream& s) {
      return s.tensor == access.tensor && s.index == access.index;
    });
    if (!known && IsTurned(group, domain, access)) streams.push_back({access.tensor, access.index});
  }
  return streams;
}

// Of an element of the widest root.
int WriteBytes(const Analysis& group) {
  int64_t bytes = 1;
  for (int root : group.roots())
    bytes = std::max(bytes, graph::SizeOf(group.graph().tensors[root].type));
  return static_cast<int>(bytes);
}

struct Form {
  absl::Status status;
  std::vector<Stream> streams;
  kernels::TileProblem problem;  // axes merged
  kernels::TileChoice choice;
};

class Writer {
 public:
  Writer(const Analysis& group, const Domain& domain, const Form& form, const Style& style,
         const std::string& name)
      : group_(group),
        domain_(domain),
        form_(form),
        context_(ContextOf(group, domain, style, name)) {}

  absl::Status Write(KernelWriter& writer) {
    const int width = form_.choice.write;
    auto wide = Build(width);
    if (!wide.ok()) return wide.status();
    auto narrow = Build(1);
    if (!narrow.ok()) return narrow.status();
    parameters_ = ParametersOf(context_, {&*wide, &*narrow});
    bool fits = Fits(*wide) && Fits(*narrow) && domain_.kept() <= kMaxIntPosition;
    for (const Stream& stream : form_.streams)
      fits = fits && group_.graph().tensors[stream.tensor].elements() <= kMaxIntPosition;
    index_type_ = fits ? "int" : "long long";

    const size_t count = form_.streams.size(), rank = form_.problem.extents.size();
    Text text;
    text.Open(StrCat("struct ", context_.name, " {"));
    text.Line(StrCat("using Index = ", index_type_, ";"));
    text.Line(StrCat("static constexpr int kStreams = ", count, ";"));
    for (const Parameter& p : parameters_) text.Line(StrCat(p.type, " ", p.name, ";"));
    text.Line("template <int S, class = void> struct Of;");
    for (size_t s = 0; s < count; ++s) {
      text.Line(StrCat("template <class Unused> struct Of<", s,
                       ", Unused> { using Type = ", TypeOf(s), "; };"));
    }
    text.Line("template <int S> using Element = typename Of<S>::Type;");
    text.Open("template <int V> struct Staged {");
    for (size_t s = 0; s < count; ++s) text.Line(StrCat(TypeOf(s), " s", s, "[V];"));
    text.Close("};");
    text.Line("template <int S, int V>");
    text.Open("static WS_DEVICE auto& of(Staged<V>& staged) {");
    for (size_t s = 0; s < count; ++s)
      text.Line(
          StrCat(s > 0 ? "else " : "", "if constexpr (S == ", s, ") return staged.s", s, ";"));
    text.Close();
    text.Line("template <int S, int V>");
    text.Open(
        StrCat("WS_DEVICE void load(const Index (&c)[", rank, "], Element<S> (&out)[V]) const {"));
    for (size_t s = 0; s < count; ++s)
      text.Line(StrCat(s > 0 ? "else " : "", "if constexpr (S == ", s, ") ", LoadOf(s)));
    text.Close();
    text.Line("template <int S>");
    text.Open(StrCat("WS_DEVICE const Element<S>* at(const Index (&c)[", rank, "]) const {"));
    for (size_t s = 0; s < count; ++s) {
      text.Line(StrCat(s > 0 ? "else " : "", "if constexpr (S == ", s, ") return ",
                       PointerOf(parameters_, form_.streams[s].tensor), " + (", PositionOf(s),
                       ");"));
    }
    text.Close();
    text.Line("template <int V>");
    text.Open(StrCat("WS_DEVICE void emit(const Index (&)[", rank,
                     "], Index i, const Staged<V>& staged) const {"));
    text.Append(ByWidth(width, EmitBody(*wide), width > 1 ? EmitBody(*narrow) : ""));
    text.Close();
    text.Close("};");
    writer.Struct(text.str(), parameters_);
    return absl::OkStatus();
  }

 private:
  // Whether a load is a stream: its element comes through shared memory, from coordinates.
  int StreamOf(ValuePtr load, const Frame& frame) const {
    for (size_t s = 0; s < form_.streams.size(); ++s) {
      if (load->tensor == form_.streams[s].tensor && load->args.empty() &&
          load->index == Substitute(form_.streams[s].index, frame.axes))
        return static_cast<int>(s);
    }
    return -1;
  }
  // Whether positions of all that is read and written otherwise fit an int.
  bool Fits(const Kernel& kernel) const {
    const graph::Graph& graph = group_.graph();
    for (ValuePtr value : IndexValuesOf(kernel)) {
      if (!FitsInt(value->index)) return false;
    }
    for (ValuePtr load : LoadsOf(kernel)) {
      if (StreamOf(load, kernel.frame) < 0 && !AddressFitsInt(graph, load->tensor, load->index))
        return false;
    }
    for (const Kernel::Root& root : kernel.roots) {
      if (!AddressFitsInt(graph, root.tensor, root.address)) return false;
    }
    return true;
  }

  absl::StatusOr<Kernel> Build(int width) const {
    return BuildKernel(group_.graph(), domain_, group_.in_memory(), ElementFrame(domain_, width));
  }

  std::string TypeOf(size_t s) const {
    return StorageType(group_.graph().tensors[form_.streams[s].tensor].type);
  }

  // Where stream s has the element of output coordinates c.
  std::string PositionOf(size_t s) const {
    const kernels::TileInput& input = form_.problem.inputs[s];
    std::string position = StrCat("Index(", input.offset, ")");
    for (size_t m = 0; m < input.strides.size(); ++m) {
      if (input.strides[m] != 0)
        absl::StrAppend(&position, " + c[", m, "] * Index(", input.strides[m], ")");
    }
    return position;
  }

  // V neighbours of stream s from output coordinates c on.
  std::string LoadOf(size_t s) const {
    const std::string position = PositionOf(s);
    const std::string& pointer = PointerOf(parameters_, form_.streams[s].tensor);
    if (form_.choice.streams[s].anywhere) {
      return StrCat("ws::load_anywhere<V>(", pointer, " + (", position, "), ", pointer, " + ",
                    group_.graph().tensors[form_.streams[s].tensor].elements(), "ll, out);");
    }
    return StrCat("ws::load<V, ", TypeOf(s), ", ", context_.style.load_hint, ">(", pointer, " + (",
                  position, "), out);");
  }

  std::string EmitBody(const Kernel& kernel) const {
    const Frame& frame = kernel.frame;
    const Dialect dialect = MakeDialect(context_, kernel, parameters_, index_type_);
    Emitter emit(dialect, BitOf(frame.element));
    for (ValuePtr load : LoadsOf(kernel)) {
      if (const int s = StreamOf(load, frame); s >= 0)
        emit.Bind(load, ToRegister(load->type, StrCat("staged.s", s, "[", LaneName(frame), "]")));
    }
    auto aligned = [&](const Index& index) {
      return frame.width == 1 || index.Without(frame.lane).multiple() % frame.width == 0;
    };
    const std::vector<ValuePtr> targets = TargetsOf(kernel);
    emit.Expect(targets);
    LoadContiguous(emit, kernel, targets, [&](ValuePtr value, const Index& base, int width) {
      return (value->variables & ~(BitOf(frame.element) | BitOf(frame.lane))) == 0 &&
             (width == frame.width ? aligned(value->index) : base.multiple() % width == 0);
    });
    std::vector<const Kernel::Root*> roots;
    for (const Kernel::Root& root : kernel.roots) roots.push_back(&root);
    StoreRoots(emit, dialect, context_, kernel, roots, aligned);
    return emit.Finish();
  }

  const Analysis& group_;
  const Domain& domain_;
  const Form& form_;
  const GroupContext context_;
  std::vector<Parameter> parameters_;
  std::string index_type_;
};

class Tile : public Skeleton {
 public:
  SkeletonCase id() const override { return v1::Group::kTile; }
  const char* header(const v1::Group&, const Target&) const override { return "tile"; }

  absl::StatusOr<const Domain*> Matches(const Analysis& group) const override {
    if (!group.elements().ok()) return group.elements().status();
    const Domain& domain = *group.elements();
    if (group.largest_reduce() >= 0)
      return absl::InvalidArgumentError("a tile is for maps; give its reduces another group");
    if (StreamsOf(group, domain).empty())
      return absl::InvalidArgumentError("every large input lies in the order of its output");
    return &domain;
  }

  double Suits(const Analysis&, const Target& target) const override {
    return target.fibers() ? 0.1 : 0.7;
  }

  absl::StatusOr<v1::Group> Resolve(const Analysis& group, const v1::Group& knobs,
                                    const Target& target) const override {
    auto domain = Matches(group);
    if (!domain.ok()) return domain.status();
    v1::Group resolved = knobs;
    v1::TileKnobs& tile = *resolved.mutable_tile();
    if (tile.vector_bytes() == 0) tile.set_vector_bytes(16);
    if (tile.line_bytes() == 0) tile.set_line_bytes(256);
    // Bytes have the smallest boxes in elements, whose ends are the largest part of them.
    const bool bytes = WriteBytes(group) == 1 && target.shared_per_block >= kManyBoxes * (64 << 10);
    if (tile.box_bytes() == 0)
      tile.set_box_bytes(BoxBytes(group, **domain, bytes ? 64 << 10 : 32 << 10, target));
    const bool open = tile.block_threads() == 0;
    if (open) tile.set_block_threads(tile.box_bytes() > kManyBytes ? 512 : 256);
    if (resolved.precision().accumulator() == v1::ACCUMULATOR_AUTO)
      resolved.mutable_precision()->set_accumulator(v1::ACCUMULATOR_F32);
    // Few bytes are better moved by few threads.
    if (open && FormOf(group, **domain, tile).choice.shared_bytes <= kManyBytes)
      tile.set_block_threads(256);
    const Form& form = FormOf(group, **domain, tile);
    if (!form.status.ok()) return form.status;
    Checker check(group.name());
    CheckResidency("tile", tile.block_threads(), 0, form.choice.shared_bytes, "tile.box_bytes",
                   target, check);
    if (!check.status().ok()) return check.status();
    return resolved;
  }

  absl::StatusOr<Usage> Use(const Analysis& group, const v1::Group& resolved,
                            const Target&) const override {
    auto domain = Matches(group);
    if (!domain.ok()) return domain.status();
    const Form& form = FormOf(group, **domain, resolved.tile());
    if (!form.status.ok()) return form.status;
    Usage use;
    use.threads = resolved.tile().block_threads();
    use.shared_bytes = form.choice.shared_bytes;
    use.blocks = form.choice.boxes;
    use.width = form.choice.write;
    use.streams = static_cast<int>(group.demand().reads.size());
    for (const kernels::TileInput& input : form.problem.inputs) use.stream_bytes += input.bytes;
    // A state that is read through shared memory is read by other threads than those that write it.
    use.recomputes = true;
    return use;
  }

  std::vector<Layout> Layouts(const Analysis&, const v1::Group&, const Target&) const override {
    std::vector<Layout> layouts;
    for (int line : {128, 256, 512, 64}) {
      for (int box : {16 << 10, 32 << 10, 8 << 10, 64 << 10}) {
        for (bool raster : {false, true}) {
          Layout layout;
          layout.owner = v1::MEMORY;
          layout.kind = "box";
          layout.name = StrCat("lines of ", line, " bytes, boxes of ", box >> 10, " KiB",
                               raster ? ", in the input's order" : "");
          layout.knobs = {{"line_bytes", line}, {"box_bytes", box}, {"raster_input", raster}};
          layout.prior = line == 256 || line == 128 ? 0.15 : 0.08;
          layouts.push_back(layout);
        }
      }
    }
    return layouts;
  }

  absl::Status Emit(const Analysis& group, const v1::Group& resolved, const Target&,
                    KernelWriter& writer) const override {
    auto domain = Matches(group);
    if (!domain.ok()) return domain.status();
    const Form& form = FormOf(group, **domain, resolved.tile());
    if (!form.status.ok()) return form.status;
    Writer glue(group, **domain, form, StyleOf(resolved, resolved.tile()), writer.glue());
    if (absl::Status s = glue.Write(writer); !s.ok()) return s;
    const kernels::TileChoice& choice = form.choice;
    return writer
        .Kernel("", {choice.threads, 0, choice.boxes, choice.shared_bytes}, {},
                StrCat("ws::tile<", writer.glue(), ", ", kernels::TileArguments(choice), ">(g)"))
        .status();
  }

 private:
  // At most `most`, and small enough that every multiprocessor has some.
  static int BoxBytes(const Analysis& group, const Domain& domain, int64_t most,
                      const Target& target) {
    int64_t turned = 0;
    for (const Stream& stream : StreamsOf(group, domain))
      turned += domain.kept() * graph::SizeOf(group.graph().tensors[stream.tensor].type);
    while (most > kLeastBox && turned < most * kManyBoxes * target.sm_count) most /= 2;
    return static_cast<int>(most);
  }

  static const Form& FormOf(const Analysis& group, const Domain& domain,
                            const v1::TileKnobs& tile) {
    return group.Derived<Form>(
        StrCat("tile ", tile.vector_bytes(), " ", tile.line_bytes(), " ", tile.box_bytes(), " ",
               tile.raster_input(), " ", tile.block_threads()),
        std::function<Form()>([&] {
          Form form;
          form.streams = StreamsOf(group, domain);
          form.problem.write_bytes = WriteBytes(group);
          form.problem.extents = domain.Extents(Role::kKept);
          for (const Stream& stream : form.streams) {
            kernels::TileInput input;
            for (const DomainAxis& axis : domain.axes)
              input.strides.push_back(stream.index.CoefficientOf(axis.variable));
            input.offset = stream.index.constant();
            input.bytes =
                static_cast<int>(graph::SizeOf(group.graph().tensors[stream.tensor].type));
            form.problem.inputs.push_back(input);
          }
          form.problem = kernels::MergeAxes(form.problem);
          kernels::TileKnobs wanted;
          wanted.threads = tile.block_threads();
          wanted.vector_bytes = tile.vector_bytes();
          wanted.line_bytes = tile.line_bytes();
          wanted.box_bytes = tile.box_bytes();
          wanted.raster_input = tile.raster_input();
          auto choice = kernels::ChooseTile(form.problem, wanted);
          form.status = choice.status();
          if (choice.ok()) form.choice = *std::move(choice);
          return form;
        }));
  }
};

}  // namespace

const Skeleton* TileSkeleton() {
  static const Tile skeleton;
  return &skeleton;
}

}  // namespace warpsmith::codegen
