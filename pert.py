import numpy as np, tempfile, torch, sys
from pathlib import Path
from dataclasses import replace
from firstlight.lessons import hd142527
from firstlight.imaging import check_weights, image, read_visibilities, scale_weights
folder=tempfile.TemporaryDirectory()
hd=hd142527.download(Path(folder.name))
seen=read_visibilities(hd, windows=[0]); seen=scale_weights(seen,check_weights(seen))
for eps in (0,1e-9,1e-7,1e-7,1e-6,1e-5,1e-4):
    r=np.random.default_rng(int(eps*1e10)+1)
    s=replace(seen,data=seen.data*(1+eps*r.standard_normal(seen.data.shape)))
    f=image(s,field=8,cell_size=0.1,draws=0); q=f.quality
    print(eps,f"{q.flux:.4f} {q.short_flux:.4f} chi2 {q.chi2:.4f} in {q.inside:.3f} out {q.outside:.3f} largest {q.largest:.2f} dr {q.dynamic_range:.2f}",flush=True)
