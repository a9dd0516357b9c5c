"""The PyTorch oracle: a long-lived child that owns a reference module and answers for it.

  python -m warpsmith_torch.oracle

One JSON object a line on standard input, one on standard output: {"command": ..., arguments} gives
{"ok": {...}} or {"error": text, "kind": "invalid" | "memory" | "failed"}. Commands:

  hello                                  version, cuda, card
  load      source, device, tensors, outputs, updates, workload, given, orders, wholes, seeds, memory_bytes
                                         makes the module, for the workload of that name if it has
                                         several (module.py); given: which of the outputs, or beyond
                                         them of the inputs, each tensor of forward's is, [] if they
                                         are the outputs; orders: of which
                                         axes of forward's tensor each output has its own, [] if they
                                         are the same; wholes: of each output the shape of the
                                         tensor that forward's is a part of, [] where it is none, []
                                         if none is; seeds: which of the tensors, the last that is an
                                         input, has the seeds of what forward draws at random, "" if
                                         none; tensors: [{name,
                                         role, dtype, shape}] of what forward is given, in its order
                                         ("input", or "inout": an input that it changes), then
                                         params and states by name; memory_bytes: as if the card had
                                         only so many (0: all)
  draw      seed, variation              inputs, params and states: {tensors: [{handle, offset, bytes}]}
  answer    sample, whole_bytes, budget_bytes
                                         outputs, then updated states, the same way; those of draw
                                         have been copied
  exact                                  {answers: [{positions, values, reference, rms, farthest}], unmeasured}: the
                                         first three {handle, offset, bytes} of a shared-memory object,
                                         empty where nothing is known; those of answer have been copied.
                                         farthest: the largest error over rms of all that fp64 was run on,
                                         where inputs are varied; else 0
  release   keep                         frees what the draw holds, and gives it back unless some may be kept;
                                         {peak_bytes} since the last one
  baselines names, graph, clock, seconds, seed, sample, whole_bytes, budget_bytes
                                         {times: {name: {device_us, graph_us, launch_us, call_us}}, accurate, errors};
                                         asked again it compiles nothing again, and what was found accurate is
  idle                                   frees everything but the module

Nothing is held longer than the other side needs it: gigabytes are at stake. What is compiled stays as long as its
module, since it has none of the card's memory but for its kernels.
"""
import contextlib
import functools
import gc
import json
import os
import sys
import warnings
import weakref

import torch

from warpsmith_torch import baselines, drawn, exact, handover, module as modules, places, seeded

VARIATIONS = ("none", "times3", "times001", "negated", "dense", "wide", "new_weights", "ties")
SCALES = {"times3": 3.0, "times001": 0.01, "negated": -1.0}
FORWARD_SEED = 5
# Of a card's memory: less than this free, and nothing is kept.
KEEP_FREE = 0.35
ERROR_CHARACTERS = 300


class Invalid(Exception):
    """The request, or the module, is not what was said."""


def dtype_of(name):
    names = {"bool": torch.bool, "i8": torch.int8, "u8": torch.uint8, "i32": torch.int32, "i64": torch.int64,
             "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64}
    return names[name]


def stored(tensor):
    """The tensor as the graph has it: eight-bit floats as their bits."""
    return tensor.view(torch.uint8) if tensor.dtype == torch.float8_e4m3fn else tensor


def expect(what, tensor, wanted):
    """Raises unless the tensor has the type and shape that the graph says."""
    if tensor.dtype != dtype_of(wanted["dtype"]) or list(tensor.shape) != wanted["shape"]:
        raise Invalid(f"{what} is {tensor.dtype} {list(tensor.shape)}, and the graph says "
                      f"{wanted['dtype']} {wanted['shape']}")


def whole_of(tensor, shape):
    """The tensor that fills the memory which this one is a part of; shape: its own, but for the first extent, which
    is less where the module is run on a part of its batch."""
    count = tensor.untyped_storage().nbytes() // tensor.element_size()
    row = 1
    for extent in shape[1:]:
        row *= extent
    if count % row:
        raise Invalid(f"an output is a part of {count} elements, and the problem says of {shape}")
    return torch.as_strided(tensor, (count,), (1,), 0).view(-1, *shape[1:])


def outputs_of(given, count, orders, wholes=()):
    """A function of what forward gives: its tensors as the graph's `count` outputs. given, orders, wholes: see load."""
    places = [given.index(k) for k in range(count)] if given else None

    def outputs(value):
        tensors = exact.flat(value)
        if given and len(tensors) != len(given):
            raise Invalid(f"forward gives {len(tensors)} tensors, and the problem says {len(given)}")
        if given:
            tensors = [tensors[place] for place in places]
        if wholes:
            tensors = [whole_of(t, shape) if shape else t for t, shape in zip(tensors, wholes)]
        for i, (tensor, order) in enumerate(zip(tensors, orders)):
            if tensor.dim() != len(order):
                raise Invalid(f"output {i} has {tensor.dim()} axes, and the problem says {len(order)}")
        return [t.permute(order) for t, order in zip(tensors, orders)] if orders else tensors

    return outputs


class Oracle:
    def __init__(self):
        self.model, self.module = None, None
        self.timed = None  # the model's baselines, once they are asked for
        self.source_path = None
        self.first_states, self.inouts = {}, {}
        self.memory_bytes, self.keep = 0, True
        self.numbers = handover.SharedHandover()  # what is on the processor, whatever the device
        self._clear()

    def _clear(self):
        """Nothing drawn."""
        self.inputs, self.seeds, self.sample, self.reference = None, [], None, None
        self.given_states, self.saved_params, self.unmeasured = {}, {}, ""
        self.varied = False  # whether inputs or weights are not the module's own

    def _free(self, all=False):
        """Gives memory back. The driver scrubs what is freed in the background and slows down whatever
        runs meanwhile, so while there is room for the other side it is kept for the next draw."""
        on_card = torch.cuda.is_available() and torch.cuda.is_initialized()
        if on_card and self.keep and not all:
            free, total = self._memory()
            if free >= KEEP_FREE * total:
                return
        gc.collect()
        if on_card:
            torch.cuda.empty_cache()

    def _memory(self):
        """(free, total) bytes of the card, as far as it may be used."""
        free, total = torch.cuda.mem_get_info()
        withheld = max(0, total - self.memory_bytes) if self.memory_bytes else 0
        return max(0, free - withheld), total - withheld

    def _limit(self):
        """Holds PyTorch to what is left of the memory that may be used."""
        if self.memory_bytes and self.device.startswith("cuda"):
            usable = torch.cuda.memory_reserved() + self._memory()[0]
            torch.cuda.set_per_process_memory_fraction(min(1.0, usable / torch.cuda.mem_get_info()[1]))

    # -- module ----------------------------------------------------------------------------------

    def hello(self):
        cuda = torch.cuda.is_available()
        return {"version": torch.__version__, "cuda": cuda, "card": torch.cuda.get_device_name() if cuda else "cpu"}

    def load(self, source, device, tensors, outputs, updates, workload="", given=(), orders=(), memory_bytes=0,
             wholes=(), seeds=""):
        self.unload()
        self.memory_bytes = memory_bytes
        if device.startswith("cuda") and not torch.cuda.is_available():
            raise Invalid("PyTorch sees no card")
        self.device = device
        torch.set_default_device(device)
        if device.startswith("cuda"):
            torch.cuda.set_device(device)
            # What is left for the processor is small, and waking a team of threads for each step of it takes
            # milliseconds where many workers share many cores.
            torch.set_num_threads(1)
        self.handover = handover.for_device(device)
        self.module, self.source_path = modules.load_source(source)
        # Of others nothing is watched: some operators are not to be called under a mode.
        self.as_on_card = "topk" in source and not device.startswith("cuda")
        workloads = modules.workloads_of(self.module)
        if hasattr(self.module, "WORKLOADS") and workload not in workloads:
            raise Invalid(f"the module has no workload '{workload}'; it has {', '.join(workloads)}")
        dims = workloads.get(workload, {})
        self.drawn = drawn.Inputs(functools.partial(self.module.get_inputs, **dims), device)
        self.model = modules.make_model(self.module, dims).to(device)
        self.outputs_of = outputs_of(given, len(outputs), orders, wholes)
        self.wanted_inputs = [t for t in tensors if t["role"] in ("input", "inout")]
        self.draws = 0
        if seeds:
            if not self.wanted_inputs or self.wanted_inputs[-1]["name"] != seeds:
                raise Invalid(f"'{seeds}' is not the last of the inputs, where seeds are wanted")
            self.draws = self.wanted_inputs[-1]["shape"][0]
        self.inouts = {t["name"]: i for i, t in enumerate(self.wanted_inputs) if t["role"] == "inout"}
        own_tensors = tensors[len(self.wanted_inputs):]
        self.wanted_outputs = outputs
        self.updates = [u if u in self.inouts else self._state_name(u) for u in updates]
        self.weights = [self._state_name(t["name"]) for t in own_tensors]
        own = modules.tensors_of(self.model)
        for name, wanted in zip(self.weights, own_tensors):
            if name not in own:
                raise Invalid(f"the module has no parameter or buffer '{name}'")
            expect(f"'{name}'", stored(own[name]), wanted)
        states = {self._state_name(t["name"]) for t in tensors if t["role"] == "state"}
        self.first_states = {name: own[name].clone() for name in states}
        return {}

    def unload(self):
        self.release(self.keep)
        self._forget()
        self.model, self.drawn, self.first_states = None, None, {}
        if self.source_path:
            os.unlink(self.source_path)
            self.source_path = None
        self._free(all=True)
        if self._drop_module():
            # What is left is PyTorch's own: half a million objects, for which each collection would take a quarter of a
            # second.
            gc.freeze()

    def _drop_module(self):
        """Whether nothing of the file is left."""
        if self.module is None:
            return True
        model = weakref.ref(self.module.Model)
        # Guards of what PyTorch has compiled hold them for ever, and they may be tensors. What it has put there itself
        # (__compiled_fn, __builtins_dict and the like) it wants to take away.
        for name in [name for name in vars(self.module) if not name.startswith("__")]:
            delattr(self.module, name)
        self.module = None
        self._free(all=True)
        return model() is None

    def _forget(self):
        if self.timed is not None:
            self.timed.forget()
        self.timed = None

    def _places(self):
        """Positions of forward's arguments that are in the graph."""
        return [i for i, x in enumerate(self.inputs) if isinstance(x, torch.Tensor) and x.numel()]

    def _tensors(self):
        """What the graph is given, in its order."""
        seeds = [torch.tensor(self.seeds, dtype=torch.int64)] if self.draws else []
        return [self.inputs[i] for i in self._places()] + seeds

    def _forward(self, model, inputs):
        """The outputs of a model, the module's or one like it, for some inputs and the seeds drawn."""
        with contextlib.ExitStack() as modes:
            if self.as_on_card:
                modes.enter_context(places.AsOnCard())
            if self.draws:
                modes.enter_context(seeded.Seeded(self.seeds))
            return self.outputs_of(model(*inputs))

    def _states(self):
        """What forward changes or finds changed: {name: tensor} of the module's states, and of the inputs drawn."""
        own, given = modules.tensors_of(self.model), self._tensors()
        return {**{name: own[name] for name in self.first_states},
                **{name: given[place] for name, place in self.inouts.items()}}

    def _state_name(self, name):
        """The graph's name for a weight begins with a letter or an underscore; its own may not."""
        return name[1:] if name[:1] == "_" and name[1:2].isdigit() else name

    # -- one draw ----------------------------------------------------------------------------------

    def _vary(self, inputs, variation, seed):
        if variation in SCALES:
            change = lambda x: x * SCALES[variation]
        elif variation == "dense":
            torch.manual_seed(seed + 1)
            change = torch.randn_like
        elif variation == "ties":
            torch.manual_seed(seed + 1)
            change = lambda x: torch.randn_like(x).round_().add_(0.5)
        elif variation == "wide":
            torch.manual_seed(seed + 1)
            change = lambda x: torch.randn_like(x).mul_(2).exp_().mul_(x)
        else:
            return
        for i, x in enumerate(inputs):
            if exact.is_float(x):
                inputs[i] = change(x)

    def _perturb(self, seed):
        """Other weights, and other states where the module keeps some."""
        torch.manual_seed(seed + 2)
        for name, p in self.model.named_parameters():
            if exact.is_float(p):
                self.saved_params[name] = p.detach().clone()
                p.data.add_(0.1 * p.data.abs().mean().clamp_min(0.05) * torch.randn_like(p))
        own = modules.tensors_of(self.model)
        for name in self.first_states:
            state = own[name]
            if not state.is_floating_point():
                continue
            if bool((state >= 0).all()) and bool((state > 0).any()):
                state.mul_(torch.exp(0.2 * torch.randn_like(state)))  # a variance stays positive
            else:
                state.add_(0.1 * torch.randn_like(state))

    def _restore(self):
        own = modules.tensors_of(self.model) if self.model is not None else {}
        for name, value in [*self.saved_params.items(), *self.first_states.items()]:
            own[name].data.copy_(value)
        self.saved_params = {}

    def _give(self, tensors):
        given = [t.detach().contiguous() for t in tensors]
        if self.device.startswith("cuda"):
            torch.cuda.synchronize()
        return {"tensors": [self.handover.give(t) for t in given]}

    def _draw(self, seed):
        self.inputs = self.drawn.draw(seed)
        self.seeds = torch.randint(seeded.SEED_END, (self.draws,), dtype=torch.int64).tolist()
        for place in self._inout_places().values():  # a file may give the same tensor each time
            self.inputs[place] = self.inputs[place].clone()

    def draw(self, seed, variation):
        if variation not in VARIATIONS:
            raise Invalid(f"no variation '{variation}'")
        self.release(self.keep)
        self._limit()
        self.seed = seed
        self._draw(seed)
        self._vary(self.inputs, variation, seed)
        self.varied = variation != "none"
        if variation == "new_weights":
            self._perturb(seed)
        tensors = [stored(x) for x in self._tensors()]
        if len(tensors) != len(self.wanted_inputs):
            raise Invalid(f"get_inputs() gives {len(tensors)} tensors, and the graph has {len(self.wanted_inputs)}")
        for tensor, wanted in zip(tensors, self.wanted_inputs):
            expect(f"input '{wanted['name']}'", tensor, wanted)
        own = modules.tensors_of(self.model)
        self.given_states = {name: state.clone() for name, state in self._states().items()}
        self._free()  # what making them took, before the other side needs room for its copy
        return self._give(tensors + [stored(own[name]) for name in self.weights])

    def answer(self, sample, whole_bytes, budget_bytes):
        self.handover.release()
        self._limit()
        torch.manual_seed(FORWARD_SEED)
        outputs = self._forward(self.model, self.inputs)
        if len(outputs) != len(self.wanted_outputs):
            raise Invalid(f"forward gives {len(outputs)} tensors, and the graph {len(self.wanted_outputs)}")
        for i, (tensor, wanted) in enumerate(zip(outputs, self.wanted_outputs)):
            expect(f"output {i}", tensor, wanted)
        states = self._states()
        updates = [states[name].clone() for name in self.updates]
        self._plan(outputs, updates, sample, whole_bytes, budget_bytes)
        self.reference = [exact.at(t, p) for t, p in zip(
            outputs + updates, self.sample.positions + self.sample.update_positions)]
        return self._give(outputs + updates)

    def _plan(self, outputs, updates, count, whole_bytes, budget_bytes):
        """Chooses positions, and whether fp64 is run on all or on a part."""
        self.sample = exact.Sample(outputs, updates, count, self.seed)
        if self.device.startswith("cuda"):
            self._free()
            kept = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
            budget_bytes = min(budget_bytes, int(0.9 * (self._memory()[0] + kept)))
        self.unmeasured = ""
        if whole_bytes > budget_bytes:
            self._use_part(outputs)

    def _use_part(self, outputs):
        batch = exact.batch_of(self.inputs, outputs)
        if batch is not None:
            self.sample.restrict(outputs, batch)
            self._set_states(self.given_states)
            torch.manual_seed(FORWARD_SEED)
            if exact.treats_as_batch(self.model, self.inputs, self._forward, outputs, self.sample.rows, batch):
                return
        self.sample.nowhere()
        self.unmeasured = "too large for fp64, and the module does not treat the first axis as a batch"

    def _true_values(self):
        """(outputs' values at the sample's positions, states by name or None, how far off outputs are anywhere, where
        inputs are not the module's own); None: unmeasured."""
        if self.unmeasured:
            return None

        def again(inputs):
            self._set_states(self.given_states)
            torch.manual_seed(FORWARD_SEED)
            return self._forward(self.model, inputs)

        self._set_states(self.given_states)
        torch.manual_seed(FORWARD_SEED)
        try:
            return exact.values(self.model, self.inputs, self._forward, self.sample, self._inout_places(),
                                again if self.varied else None)
        except torch.cuda.OutOfMemoryError:
            self.unmeasured = "not enough memory for fp64"
        return None

    def _inout_places(self):
        """{name: position among forward's arguments}"""
        places = self._places()
        return {name: places[place] for name, place in self.inouts.items()}

    def _set_states(self, values):
        for name, state in self._states().items():
            state.data.copy_(values[name])

    def exact(self):
        self.handover.release()
        self._free()
        self._limit()
        found = self._true_values()
        if found is None:
            self.sample.nowhere()
            self.reference = [r[:0] for r in self.reference]
        none = torch.empty(0, dtype=torch.float64, device="cpu")
        values, states, off = found or ([none for _ in self.sample.positions], None, [])
        for name, positions in zip(self.updates, self.sample.update_positions):
            values.append(none if states is None else exact.at(states[name], positions))
        positions = self.sample.positions + self.sample.update_positions
        give = lambda t: self.numbers.give(t.cpu().contiguous())
        off = off + [0.0] * (len(positions) - len(off))
        return {"unmeasured": self.unmeasured,
                "answers": [{"positions": give(p), "values": give(v), "reference": give(r), "rms": m, "farthest": f}
                            for p, v, r, m, f in zip(positions, values, self.reference, self.sample.rms, off)]}

    def release(self, keep=True):
        self.keep = keep
        self.numbers.release()
        if self.model is not None:
            self.handover.release()
            self._restore()
        self._clear()
        self._free()
        peak = 0
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            peak = torch.cuda.max_memory_reserved()
            torch.cuda.reset_peak_memory_stats()
        return {"peak_bytes": peak}

    # -- baselines -------------------------------------------------------------------------------

    def baselines(self, names, graph, clock, seconds, seed, sample, whole_bytes, budget_bytes):
        self.release(self.keep)
        self._limit()
        self.seed = seed
        self._draw(seed)
        if self.timed is None:
            kind = "cuda" if self.device.startswith("cuda") else "cpu"
            self.timed = baselines.Baselines(self.model, kind, clock)
        self.given_states = {name: state.clone() for name, state in self._states().items()}
        self._free(all=True)
        times, accurate, errors = self.timed.time(
            names, self.inputs, graph, seconds, lambda: self._set_states(self.given_states),
            lambda: self._accuracy(sample, whole_bytes, budget_bytes))
        self.release(self.keep)
        self._free(all=True)
        return {"times": times, "accurate": accurate, "errors": errors}

    def _accuracy(self, sample, whole_bytes, budget_bytes):
        """Of calls with the inputs drawn, and the states that are given."""
        self._set_states(self.given_states)
        self._plan(self._forward(self.model, self.inputs), [], sample, whole_bytes, budget_bytes)
        found = self._true_values()
        if found is None:  # held against eager instead, anywhere
            self.sample = exact.Sample(self.outputs_of(self.model(*self.inputs)), [], sample, self.seed)
        self._free(all=True)
        return baselines.Accuracy(self.model, self.inputs, self.outputs_of,
                                  lambda: self._set_states(self.given_states), self.sample, found and found[0])

    def idle(self):
        self.release(self.keep)
        self._forget()
        self._free(all=True)
        return {}


COMMANDS = ("hello", "load", "draw", "answer", "exact", "release", "baselines", "idle")


def reply_to(oracle, request):
    command = request.pop("command", "")
    if command not in COMMANDS:
        return {"error": f"no command '{command}'", "kind": "invalid"}
    try:
        with torch.no_grad():
            return {"ok": getattr(oracle, command)(**request)}
    except (Invalid, seeded.TooMany) as error:
        reply = {"error": str(error), "kind": "invalid"}
    except torch.cuda.OutOfMemoryError as error:
        reply = {"error": shortened(error), "kind": "memory"}
    except (Exception, SystemExit) as error:  # whatever a module of somebody else's raises
        # a card after a fault is of no use: the parent starts a new process
        kind = "lost" if "CUDA error" in str(error) else "failed"
        return {"error": f"{type(error).__name__}: {shortened(error)}", "kind": kind}
    oracle._free()  # only here, where the frames that the error came through hold no tensors any more
    return reply


def shortened(error):
    """The first line of an error's text that says anything."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:ERROR_CHARACTERS] if lines else "it says no more"


def main():
    warnings.filterwarnings("ignore")
    # What modules and compilers print must not get between the answers, and no input() of theirs may take
    # a request.
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    oracle = Oracle()
    for line in requests:
        answers.write(json.dumps(reply_to(oracle, json.loads(line))) + "\n")
        answers.flush()
    oracle.unload()


if __name__ == "__main__":
    main()
