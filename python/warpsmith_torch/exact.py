"""What the right answer is, in fp64, at sampled positions.

The module is run in fp64 as a whole where that fits; otherwise, if it treats the first axis as a batch
(checked, not assumed), on some entries of the batch, and only positions in those are sampled.
"""
import contextlib
import copy
import math

import torch
from torch.overrides import TorchFunctionMode

# Of the batch, where not all of it fits.
PART = 16
# Largest difference, over the rms, at which a part of a batch counts as computed alike. Sums in another
# order differ by less, and a module that mixes entries of its batch by far more.
ALIKE = 1e-5
# Elements that are worked on at a time where that takes memory.
PIECE = 1 << 27
# Places in the sample for the largest and smallest values of stretches of an output.
EXTREMES = 256
# Errors below these, over the rms, are not told apart: four ulp of fp32, and one of the types of 16 bits,
# whose rounding is all that most of their errors are.
FLOORS = {torch.float16: 2.0 ** -10, torch.bfloat16: 2.0 ** -7}
FLOOR = 5e-7


def flat(value):
    return [t for t in torch.utils._pytree.tree_leaves(value) if isinstance(t, torch.Tensor)]


def is_float(value):
    """Whether it is a tensor of floats that can be computed with: those of eight bits are but stored."""
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.element_size() > 1


class _Widened(TorchFunctionMode):
    """Inside, whatever asks for a floating type is given fp64: a module that rounds on its way (`.half()`,
    `dtype=torch.bfloat16`) or widens too little (`.float()`) still gives the right answer."""

    _CASTS = (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16)
    _ASIS = (torch.finfo, torch.Tensor.dtype.__get__)  # they ask which type it is

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in self._CASTS:
            return args[0].double()
        if func in self._ASIS:
            return func(*args, **kwargs)
        # 8 bits are what the module is about, no accident.
        wide = lambda a: torch.float64 if isinstance(a, torch.dtype) and a.is_floating_point and a.itemsize > 1 else a
        return func(*[wide(a) for a in args], **{name: wide(a) for name, a in kwargs.items()})


@contextlib.contextmanager
def _widened():
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Widened():
            yield
    finally:
        torch.set_default_dtype(usual)


def in_double(model, inputs, forward, inouts=()):
    """(outputs, states) of the module in fp64: its buffers, and of `inputs` those that forward changes. forward:
    calls a model with some inputs, and gives its tensors as a list. inouts: {name: position in `inputs`}"""
    exact = copy.deepcopy(model).double()
    wide = [x.double() if is_float(x) else x for x in inputs]
    changed = {name: wide[place].clone() for name, place in dict(inouts).items()}
    for name, place in dict(inouts).items():
        wide[place] = changed[name]
    with _widened():
        outputs = forward(exact, wide)
    return outputs, {**dict(exact.named_buffers(remove_duplicate=False)), **changed}


def at(tensor, positions):
    return tensor.reshape(-1)[positions.to(tensor.device)].double().cpu()


def floor(dtype):
    return FLOORS.get(dtype, FLOOR)


def _rank(values, dtype):
    """Values as the type has them, numbered in their order; neighbours differ by one. Not of NaN."""
    bits = values.to(dtype).view(torch.int16).int()
    return torch.where(bits < 0, -(bits & 0x7FFF), bits)


def error(got, want, dtype=None):
    """(largest, rms) of |got - want| over the rms of want, where both are finite; NaN if they disagree
    about which are or what the others are. Takes values, in double. dtype: the type that `got` was stored
    in; of 16 bits, what `want` rounds to and its neighbours are as good as `want`."""
    if dtype in FLOORS:
        near = (_rank(got, dtype) - _rank(want, dtype)).abs() <= 1
        got = torch.where(near & ~got.isnan() & ~want.isnan(), want, got)
    finite = got.isfinite() & want.isfinite()
    if not bool((finite | (got == want) | (got.isnan() & want.isnan())).all()):
        return math.nan, math.nan
    if not bool(finite.any()):
        return 0.0, 0.0
    difference, want = (got - want)[finite], want[finite]
    rms = want.square().mean().sqrt().item() or 1.0
    return difference.abs().max().item() / rms, difference.square().mean().sqrt().item() / rms


def rms(tensor):
    """Root of the mean square; 0 where that is not a number, or not of numbers."""
    if not tensor.is_floating_point() or not tensor.numel():
        return 0.0
    # in pieces: each is copied in fp64
    norms = [torch.linalg.vector_norm(piece, dtype=torch.float64) for piece in tensor.reshape(-1).split(PIECE)]
    value = (torch.linalg.vector_norm(torch.stack(norms)) / math.sqrt(tensor.numel())).item()
    return value if math.isfinite(value) else 0.0


class Sample:
    """Positions in a module's outputs at which exact values are wanted, on the outputs' device: a processor
    takes milliseconds for those of each.

    rows: the entries of the batch that they are in; None: they may be anywhere.
    """

    def __init__(self, outputs, updates, count, seed):
        self._device = (outputs + updates)[0].device if outputs + updates else torch.device("cpu")
        self._generator = torch.Generator(device=self._device).manual_seed(seed)
        self._count = count
        self.rows = None
        # Of the whole: the sample holds more large values than there are.
        self.rms = [rms(t) for t in outputs + updates]
        self.positions = [self._anywhere(t) for t in outputs]
        self.update_positions = [self._anywhere(t) for t in updates]

    def _none(self):
        return torch.empty(0, dtype=torch.int64, device=self._device)

    def _spread(self, total):
        """All positions of a few elements; else as many as asked for less those of the extremes, each from
        its own stretch, with the first and the last among them."""
        if total <= self._count:
            return torch.arange(total, device=self._device)
        count = max(2, self._count - EXTREMES)
        edges = torch.arange(count + 1, dtype=torch.int64, device=self._device) * total // count
        random = torch.rand(count, generator=self._generator, dtype=torch.float64, device=self._device)
        positions = edges[:-1] + (random * (edges[1:] - edges[:-1])).long()
        positions[0], positions[-1] = 0, total - 1
        return positions

    def _anywhere(self, tensor):
        if not tensor.is_floating_point():
            return self._none()
        positions = self._spread(tensor.numel())
        if tensor.numel() == positions.numel():
            return positions
        return torch.unique(torch.cat([positions, self._extremes(tensor.reshape(-1))]))

    def _extremes(self, flat):
        """Where the largest and smallest values are, of each stretch: the largest errors are found there."""
        stretch = flat.numel() // (EXTREMES // 2)
        rows = flat[:stretch * (EXTREMES // 2)].reshape(EXTREMES // 2, stretch)
        first = torch.arange(EXTREMES // 2, device=flat.device) * stretch
        return torch.cat([rows.argmax(1) + first, rows.argmin(1) + first])

    def nowhere(self):
        self.positions = [self._none() for _ in self.positions]
        self.update_positions = [self._none() for _ in self.update_positions]

    def restrict(self, outputs, batch):
        """Only to some entries of a batch, spread over it; not to updates, which depend on all."""
        part = max(1, batch // PART)
        stretch = batch // part
        first = torch.randint(0, stretch, (1,), generator=self._generator, device=self._device)
        self.rows = torch.arange(part, device=self._device) * stretch + first
        self.positions = [self._in_rows(t, batch) for t in outputs]
        self.update_positions = [self._none() for _ in self.update_positions]

    def _in_rows(self, tensor, batch):
        if not tensor.is_floating_point():
            return self._none()
        row = tensor.numel() // batch
        within = self._spread(row * self.rows.numel())
        positions = self.rows[within // row] * row + within % row
        if within.numel() == row * self.rows.numel():
            return positions
        chosen = tensor.reshape(batch, row).index_select(0, self.rows).reshape(-1)
        within = self._extremes(chosen)
        return torch.unique(torch.cat([positions, self.rows[within // row] * row + within % row]))

    def in_part(self, positions, row):
        """The same positions in a tensor that has only the chosen entries, of `row` elements each."""
        return torch.searchsorted(self.rows, positions // row) * row + positions % row


def batch_of(inputs, outputs):
    """The extent of the axis that may be a batch; None if none can be."""
    tensors = [x for x in inputs if isinstance(x, torch.Tensor) and x.dim()]
    if not tensors:
        return None
    batch = tensors[0].shape[0]
    return batch if all(o.dim() and o.shape[0] == batch for o in outputs) else None


def part_of(inputs, rows, batch):
    return [x.index_select(0, rows.to(x.device))
            if isinstance(x, torch.Tensor) and x.dim() and x.shape[0] == batch else x for x in inputs]


def treats_as_batch(model, inputs, forward, outputs, rows, batch):
    got = forward(model, part_of(inputs, rows, batch))
    for g, o in zip(got, outputs):
        want = o.index_select(0, rows.to(o.device))
        if g.shape != want.shape:
            return False
        if not g.is_floating_point():
            if not torch.equal(g, want):
                return False
        elif not error(g.double().reshape(-1), want.double().reshape(-1))[0] < ALIKE:
            return False
    return True


def farthest(got, want, rms):
    """Largest |got - want| over rms, where both are finite; 0 of what is no float, or as exact as `want`."""
    if not got.is_floating_point() or got.dtype == torch.float64 or not got.numel():
        return 0.0
    largest = 0.0
    for a, b in zip(got.reshape(-1).split(PIECE), want.reshape(-1).split(PIECE)):
        difference = (a.double() - b.double()).abs()
        largest = max(largest, torch.where(difference.isfinite(), difference, 0.0).max().item())
    return largest / (rms or 1.0)


def values(model, inputs, forward, sample, inouts=(), again=None):
    """(the outputs' values at the sample's positions, the states by name or None, how far off outputs are anywhere);
    forward, inouts: see in_double. again: gives the outputs for some inputs in the module's own types; without it
    nobody looks how far they are off beyond the sample, and that is []."""
    if sample.rows is None:
        given = inputs
        outputs, states = in_double(model, given, forward, inouts)
        found = [at(o, p) for o, p in zip(outputs, sample.positions)]
    else:
        given, states = part_of(inputs, sample.rows, batch_of(inputs, [])), None
        outputs, _ = in_double(model, given, forward)
        found = []
        for output, positions in zip(outputs, sample.positions):
            row = max(1, output.numel() // sample.rows.numel())
            found.append(at(output, sample.in_part(positions, row)))
    if again is None:
        return found, states, []
    # Rounded they take half the memory, and what is looked for are larger differences.
    outputs = [o.float() if o.is_floating_point() else o for o in outputs]
    return found, states, [farthest(g, o, m) for g, o, m in zip(again(given), outputs, sample.rms)]
