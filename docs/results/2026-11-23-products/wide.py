# Two fp16 parts of fp32 operands, each row scaled by a power of two, on data that spread over decades: the error of
# the split alone (products in fp64) over that of a chain of fp32 multiply-adds. numpy; no card.
import numpy as np
rng=np.random.default_rng(1)
def split(x,top):
    m=np.abs(x).max(1,keepdims=True); e=np.floor(np.log2(np.where(m>0,m,1)))
    s=2.0**(top-e); y=(x*s).astype(np.float32)
    h=y.astype(np.float16); l=(y-h.astype(np.float32)).astype(np.float16)
    return h.astype(np.float64)/s,l.astype(np.float64)/s
def f32prod(a,b):
    acc=np.zeros((a.shape[0],b.shape[0]),np.float32)
    for k in range(a.shape[1]):
        acc=(acc.astype(np.float64)+np.outer(a[:,k].astype(np.float64),b[:,k].astype(np.float64))).astype(np.float32)
    return acc
for K in (1024,):
  for sg in (0,1,2,3,4):
    a=(rng.standard_normal((128,K))*np.exp(sg*rng.standard_normal((128,K)))).astype(np.float32)
    b=(rng.standard_normal((128,K))*np.exp(sg*rng.standard_normal((128,K)))).astype(np.float32)
    y=a.astype(np.float64)@b.T.astype(np.float64); r=np.sqrt((y**2).mean())
    e32=np.abs(f32prod(a,b)-y)
    out=[]
    for top in (0,14):
        ah,al=split(a,top); bh,bl=split(b,top)
        z=ah@bh.T+ah@bl.T+al@bh.T
        ez=np.abs(z-y); ez4=np.abs(z+al@bl.T-y)
        out+= [ez.max()/e32.max(), np.sqrt((ez**2).mean()/(e32**2).mean()), ez4.max()/e32.max()]
    print('K %d, normal * exp(%d normal): fp32 max %.1e rms %.1e; parts with rows up to 2: %.2f %.2f; up to 2^15: %.2f %.2f' % (K, sg, e32.max() / r, np.sqrt((e32 ** 2).mean()) / r, out[0], out[1], out[3], out[4]))
