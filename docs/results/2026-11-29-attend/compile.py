#!/usr/bin/env python3
"""compile.py LIBNVRTC INCLUDE SHAPES OUT: compiles kernel.cu for each line of SHAPES to OUT/NAME.cubin, and lists them in
OUT/variants.json for backends.py (acc | time), which is run there on a card. INCLUDE: a folder in which `warpsmith` is
worker/kernels. A line: name B H KH SQ SK D causal type queries keys stages section [split [fold]]."""
import ctypes, glob, json, os, sys
lib, include, shapes, D = sys.argv[1:5]
for b in glob.glob(os.path.dirname(lib)+'/libnvrtc-builtins*'): ctypes.CDLL(b, ctypes.RTLD_GLOBAL)
rtc=ctypes.CDLL(lib)
def compile(src, opts, out):
    prog=ctypes.c_void_p()
    rtc.nvrtcCreateProgram(ctypes.byref(prog), src.encode(), b'k.cu', 0, None, None)
    a=(ctypes.c_char_p*len(opts))(*[o.encode() for o in opts])
    r=rtc.nvrtcCompileProgram(prog, len(opts), a)
    s=ctypes.c_size_t(); rtc.nvrtcGetProgramLogSize(prog, ctypes.byref(s)); b=ctypes.create_string_buffer(s.value); rtc.nvrtcGetProgramLog(prog,b)
    log=b.value.decode()
    if r: print(log); sys.exit(1)
    rtc.nvrtcGetCUBINSize(prog, ctypes.byref(s)); b=ctypes.create_string_buffer(s.value); rtc.nvrtcGetCUBIN(prog,b)
    open(out,'wb').write(b.raw)
    return log
src=open(os.path.join(os.path.dirname(os.path.abspath(__file__)),'kernel.cu')).read(); out=[]
for line in open(shapes):
    if not line.strip() or line[0]=='#': continue
    n,B,H,KH,SQ,SK,d,c,dt,tq,tk,st,sec,*rest=line.split(); split=int(rest[0]) if rest else 1; fold=rest[1:]==['fold']
    if fold: H2,SQ2,G2=int(KH),int(H)//int(KH),1
    else: H2,SQ2,G2=int(H),int(SQ),int(H)//int(KH)
    defs=dict(SCALE_=f'{1.4426950408889634/int(d)**.5:.9g}f',GROUP_=G2,CAUSAL_='true' if c=='1' else 'false',SK_=SK,SQ_=SQ2,D_=d,TQ_=tq,TK_=tk,ST_=st,SEC_=sec,SPLIT_=split,BH_=int(B)*H2,TYPE_='Bf16' if dt=='bf16' else 'Fp16',ELEM_='bf16' if dt=='bf16' else 'f16')
    log=compile(src,['--gpu-architecture=sm_90a','-I'+include,'--std=c++17','--ptxas-options=-v','-default-device']+[f'-D{k}={v}' for k,v in defs.items()],os.path.join(D,n+'.cubin'))
    for l in log.splitlines():
        if 'registers' in l or ('spill' in l and ' 0 bytes spill stores' not in l) or 'C7512' in l or 'C7510' in l: print(n,l[:150])
    out.append(dict(name=n,B=int(B),H=int(H),KH=int(KH),SQ=int(SQ),SK=int(SK),D=int(d),causal=c=='1',dt=dt,tq=int(tq),tk=int(tk),split=split,fold=fold))
json.dump(out,open(os.path.join(D,'variants.json'),'w'))
