"""How far PyTorch and solutions each are from fp64 where kernelbench_verify.py holds one against the other.

  python3 dense.py SOLUTIONS/level1 27 173 137 113      beside kernelbench_verify.py and sol/KernelBench

Draws as its hidden() does (inputs x3, dense normals) and measures by its error() and against_fp64().
"""
import sys, importlib.util, copy, torch, glob
sys.path.insert(0, '.')
import kernelbench_verify as kv
def load(path, name):
    spec = importlib.util.spec_from_file_location(name, path); m = importlib.util.module_from_spec(spec); spec.loader.exec_module(m); return m
J = [c for c in vars(kv).values() if isinstance(c, type) and hasattr(c, 'against_fp64')][0]
j = J.__new__(J); j.torch = torch
for n in sys.argv[2:]:
    ref_path = glob.glob(f'sol/KernelBench/level1/{n}_*.py')[0]; new_path = glob.glob(f'{sys.argv[1]}/{n}_*.py')[0]
    try:
        a, b = load(ref_path, 'r'+n), load(new_path, 's'+n)
        ref, new = a.Model().cuda().eval(), b.ModelNew().cuda().eval()
        ex = copy.deepcopy(ref).double()
        ins = lambda seed: [x.cuda() if isinstance(x, torch.Tensor) else x for x in (torch.manual_seed(seed), a.get_inputs())[1]]
        f = lambda x: isinstance(x, torch.Tensor) and x.is_floating_point()
        with torch.no_grad():
            for label, xs in (('x3', [x*3 if f(x) else x for x in ins(77)]), ('dense', (torch.manual_seed(79), [torch.randn_like(x) if f(x) else x for x in ins(78)])[1])):
                want = j.flat(ref(*xs)); got = [o.clone() for o in j.flat(new(*xs))]
                t, o = j.against_fp64(ref, new, ex, xs, want)
                print(f'{n} {label}: solution to PyTorch {j.error(got, want):.2e}; to fp64: PyTorch {t:.2e}, solution {o:.2e}; finite {[bool(w.isfinite().all()) for w in want]} {[bool(w.isfinite().all()) for w in got]} {[int((w.isfinite()!=g.isfinite()).sum()) for w,g in zip(want,got)]}', flush=True)
    except Exception as e:
        print(n, 'failed', repr(e)[:300], flush=True)
    torch.cuda.empty_cache()
