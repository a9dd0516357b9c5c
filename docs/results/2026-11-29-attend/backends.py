import ctypes, json, os, sys, torch
import torch.nn.functional as F
from torch.nn.attention import sdpa_kernel, SDPBackend as SB
here=os.path.dirname(os.path.abspath(__file__))
cu=ctypes.CDLL('libcuda.so.1'); torch.zeros(1,device='cuda')
def ck(r,w=''):
    if r: raise SystemExit(f'cuda {r} {w}')
class Kern:
    def __init__(s,c):
        s.c=c; s.m=ctypes.c_void_p(); ck(cu.cuModuleLoadData(ctypes.byref(s.m), open(f"{here}/{c['name']}.cubin",'rb').read()),'load')
        s.f=ctypes.c_void_p(); ck(cu.cuModuleGetFunction(ctypes.byref(s.f), s.m, b'att')); s.shared=s.get('att_shared'); s.threads=s.get('att_threads'); ck(cu.cuFuncSetAttribute(s.f, 8, s.shared))
    def get(s,n):
        p=ctypes.c_uint64(); z=ctypes.c_size_t(); ck(cu.cuModuleGetGlobal_v2(ctypes.byref(p), ctypes.byref(z), s.m, n.encode()),n)
        v=ctypes.c_int(); ck(cu.cuMemcpyDtoH_v2(ctypes.byref(v), p, 4)); return v.value
    def map(s,t,rows):
        B,H,S,D=t.shape; raw=ctypes.create_string_buffer(192); at=(ctypes.addressof(raw)+63)//64*64
        dims=(ctypes.c_uint64*3)(D,S,B*H); st=(ctypes.c_uint64*2)(D*2,D*S*2); box=(ctypes.c_uint32*3)(64,rows,1); one=(ctypes.c_uint32*3)(1,1,1)
        ck(cu.cuTensorMapEncodeTiled(ctypes.c_void_p(at), 9 if t.dtype==torch.bfloat16 else 6, 3, ctypes.c_void_p(t.data_ptr()), dims, st, box, one, 0, 3, 2, 0),'encode'); return raw, at
    def launch(s,grid,sp,args):
        class Cfg(ctypes.Structure): _fields_=[('g',ctypes.c_uint*3),('b',ctypes.c_uint*3),('sh',ctypes.c_uint),('st',ctypes.c_void_p),('at',ctypes.c_void_p),('n',ctypes.c_uint)]
        at=(ctypes.c_uint*18)(); at[0]=4; at[2],at[3],at[4]=sp,1,1   # id at 0, value at 8 bytes
        c=Cfg((grid,1,1),(s.threads,1,1),s.shared,torch.cuda.current_stream().cuda_stream,ctypes.addressof(at),1)
        ck(cu.cuLaunchKernelEx(ctypes.byref(c), s.f, args, None),'launch')
    def prepare(s,q,k,v,o):
        if s.c['fold']: qq,oo=[x.view(x.shape[0],s.c['KH'],-1,x.shape[3]) for x in (q,o)]
        else: qq,oo=q,o
        maps=[s.map(qq,s.c['tq']),s.map(k,s.c['tk']),s.map(v,s.c['tk']),s.map(oo,64)]
        args=(ctypes.c_void_p*4)(*[a for _,a in maps]); tiles=(qq.shape[2]+s.c['tq']-1)//s.c['tq']*qq.shape[0]*qq.shape[1]; sp=s.c['split']; keep=(maps,args,q,k,v,o)
        def call():
            keep; s.launch(min(tiles,132) if sp==1 else tiles*sp, sp, args)
        return call
def ref(q,k,v,causal):
    o=torch.empty(q.shape,dtype=torch.float64,device='cuda'); r=q.shape[1]//k.shape[1]
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            s=q[b,h].double()@k[b,h//r].double().T/q.shape[-1]**.5
            if causal: s=s.masked_fill(~torch.ones(s.shape,device='cuda',dtype=torch.bool).tril(), float('-inf'))
            o[b,h]=s.softmax(-1)@v[b,h//r].double()
    return o
mode=sys.argv[1]
for c in json.load(open(here+'/variants.json')):
    kern=Kern(c); dt=torch.bfloat16 if c['dt']=='bf16' else torch.float16
    B,H,KH,SQ,SK,D=(c[x] for x in ('B','H','KH','SQ','SK','D'))
    mk=lambda h,s: torch.randn(B,h,s,D,device='cuda')
    if mode=='acc':
        for seed in range(3):
            for wide in (False,True):
                torch.manual_seed(seed); xs=[mk(H,SQ),mk(KH,SK),mk(KH,SK)]
                q,k,v=[(x*torch.exp(2*torch.randn_like(x)) if wide else x).to(dt) for x in xs]
                if wide and c['dt']!='bf16': q,k,v=[x.clamp(-6e4,6e4) for x in (q,k,v)]
                want=ref(q,k,v,c['causal']); rms=want.square().mean().sqrt(); res={}
                def err(o): 
                    e=(o.double()-want).abs(); return f"{(e.max()/rms).item():.1e}/{(e.square().mean().sqrt()/rms).item():.1e}"
                for n,b in (('flash',SB.FLASH_ATTENTION),('cudnn',SB.CUDNN_ATTENTION),('eff',SB.EFFICIENT_ATTENTION),('math',SB.MATH)):
                    try:
                        kk,vv=(k,v) if H==KH or n in('flash','cudnn') else (k.repeat_interleave(H//KH,1),v.repeat_interleave(H//KH,1))
                        with sdpa_kernel(b): res[n]=err(F.scaled_dot_product_attention(q,kk,vv,is_causal=c['causal'],enable_gqa=H!=KH))
                    except Exception as ex: res[n]='-'
                res['eager']=err(F.scaled_dot_product_attention(q,k,v,is_causal=c['causal'],enable_gqa=H!=KH))
                o=torch.full_like(q,float('nan')); kern.prepare(q,k,v,o)(); torch.cuda.synchronize(); res['ours']=err(o)
                print(c['name'],'wide' if wide else 'plain',res)
    else:
        q,k,v=mk(H,SQ).to(dt),mk(KH,SK).to(dt),mk(KH,SK).to(dt); o=torch.empty_like(q); fs={'ours':kern.prepare(q,k,v,o)}
        flush=torch.empty(64<<20,dtype=torch.int32,device='cuda')
        for n,b in (('flash',SB.FLASH_ATTENTION),('cudnn',SB.CUDNN_ATTENTION)):
            def f(b=b):
                with sdpa_kernel(b): F.scaled_dot_product_attention(q,k,v,is_causal=c['causal'],enable_gqa=H!=KH)
            try: f(); fs[n]=f
            except Exception: pass
        ts={n:[] for n in fs}
        for r in range(14):
            for n,f in fs.items():
                flush.zero_(); a=torch.cuda.Event(enable_timing=True); e=torch.cuda.Event(enable_timing=True); torch.cuda._sleep(300000); a.record(); f(); e.record(); torch.cuda.synchronize(); ts[n].append(a.elapsed_time(e)*1e3)
        fl=4*B*H*SQ*SK*D*(.5 if c['causal'] else 1); by=2*(2*B*H*SQ*D+2*B*KH*SK*D)
        print(c['name'],' '.join(f"{n} {sorted(t)[7]:.1f}us {fl/sorted(t)[7]/1e6:.0f}T {by/sorted(t)[7]/1e6*100/4.3:.0f}%" for n,t in ts.items()))
