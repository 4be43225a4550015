"""Right answers to the puzzles, at least two each, and the edits that make them wrong."""

import inspect
import linecache
import math

from firstlight.kernels import cuda

from numba import float32, int32  # isort: skip  (firstlight.kernels decides first whether there is a device)

RIGHT = {}
NAMES = {"cuda": cuda, "float32": float32, "int32": int32, "math": math}


def answer(puzzle):
    """Keep a function as a right answer to a puzzle, in the order in which they come."""

    def keep(function):
        RIGHT.setdefault(puzzle, []).append(cuda.jit(function))
        SOURCES.setdefault(puzzle, []).append("@cuda.jit\n" + inspect.getsource(function).split("\n", 1)[1])
        return function

    return keep


SOURCES = {}


def compiled(source):
    """Make a kernel out of text; its lines can be read in messages."""
    name = f"<answer {hash(source)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    names = dict(NAMES)
    exec(compile(source, name, "exec"), names)
    return next(value for key, value in names.items() if key not in NAMES and not key.startswith("__"))


def edited(puzzle, which, *edits):
    """Make a kernel out of a right answer in which pieces, that must be there, are replaced."""
    source = SOURCES[puzzle][which]
    for old, new in edits:
        assert old in source, f"{old!r} is not in\n{source}"
        source = source.replace(old, new)
    return compiled(source)


@answer("map")
def square(x, out):
    i = cuda.grid(1)
    value = x[i]
    out[i] = value * value


@answer("map")
def square_power(x, out):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    out[i] = x[i] ** 2


@answer("guard")
def calibrate(x, gain, n, out):
    i = cuda.grid(1)
    if i < n:
        out[i] = gain * x[i]


@answer("guard")
def calibrate_early(x, gain, n, out):
    i = cuda.grid(1)
    if i >= n:
        return
    out[i] = x[i]*gain  # fmt: skip


@answer("zip")
def rotate(re, im, c, s):
    i = cuda.grid(1)
    if i < re.size:
        a, b = re[i], im[i]
        re[i] = c * a - s * b
        im[i] = s * a + c * b


@answer("zip")
def rotate_stride(re, im, c, s):
    for i in range(cuda.grid(1), re.size, cuda.gridsize(1)):
        z = (c + 1j * s) * (re[i] + 1j * im[i])
        re[i] = z.real
        im[i] = z.imag


@answer("image")
def positive(image, out):
    x, y = cuda.grid(2)
    if y < image.shape[0] and x < image.shape[1]:
        out[y, x] = max(image[y, x], 0)


@answer("image")
def positive_if(image, out):
    x, y = cuda.grid(2)
    if y >= image.shape[0] or x >= image.shape[1]:
        return
    value = image[y, x]
    out[y, x] = value if value > 0 else 0


@answer("broadcast")
def distance(u, v, out):
    x, y = cuda.grid(2)
    if y < v.size and x < u.size:
        a, b = u[x], v[y]
        out[y, x] = a * a + b * b


@answer("broadcast")
def distance_row(u, v, out):
    x, y = cuda.grid(2)
    if y < out.shape[0] and x < out.shape[1]:
        row = out[y]
        row[x] = u[x] ** 2 + v[y] ** 2


@answer("stride")
def attenuate(tau, out):
    for i in range(cuda.grid(1), tau.size, cuda.gridsize(1)):
        out[i] = 1 - tau[i] / 2


@answer("stride")
def attenuate_while(tau, out):
    i = cuda.grid(1)
    while i < tau.size:
        out[i] = 1 - tau[i] / 2
        i += cuda.gridDim.x * cuda.blockDim.x


@answer("neighbours")
def smooth(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = (x[max(i - 1, 0)] + x[i] + x[min(i + 1, x.size - 1)]) / 3


@answer("neighbours")
def smooth_branches(x, out):
    i = cuda.grid(1)
    if i < x.size:
        middle = x[i]
        left = x[i - 1] if i > 0 else middle
        right = x[i + 1] if i + 1 < x.size else middle
        out[i] = (left + middle + right) / 3


@answer("transpose")
def transpose(x, out):
    tile = cuda.shared.array((32, 33), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    column, top = cuda.blockIdx.x * 32 + tx, cuda.blockIdx.y * 32
    for r in range(ty, 32, 8):
        if top + r < x.shape[0] and column < x.shape[1]:
            tile[r, tx] = x[top + r, column]
    cuda.syncthreads()
    column, top = cuda.blockIdx.y * 32 + tx, cuda.blockIdx.x * 32
    for r in range(ty, 32, 8):
        if top + r < out.shape[0] and column < out.shape[1]:
            out[top + r, column] = tile[tx, r]


@answer("transpose")
def transpose_swizzled(x, out):
    tile = cuda.shared.array((32, 32), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x0, y0 = cuda.blockIdx.x * 32, cuda.blockIdx.y * 32
    for r in range(ty, 32, 8):
        if y0 + r < x.shape[0] and x0 + tx < x.shape[1]:
            tile[r, tx ^ r] = x[y0 + r, x0 + tx]
    cuda.syncthreads()
    for r in range(ty, 32, 8):
        if x0 + r < x.shape[1] and y0 + tx < x.shape[0]:
            out[x0 + r, y0 + tx] = tile[tx, r ^ tx]


@answer("tile")
def smooth_tile(x, out):
    tile = cuda.shared.array(34, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    last = x.size - 1
    if i <= last:
        tile[t + 1] = x[i]
        if t == 0:
            tile[0] = x[max(i - 1, 0)]
        if t == 31 or i == last:
            tile[t + 2] = x[min(i + 1, last)]
    cuda.syncthreads()
    if i <= last:
        out[i] = (tile[t] + tile[t + 1] + tile[t + 2]) / 3


@answer("tile")
def smooth_tile_first_two(x, out):
    tile = cuda.shared.array(34, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    start = i - t - 1
    for k in range(t, 34, 32):
        tile[k] = x[min(max(start + k, 0), x.size - 1)]
    cuda.syncthreads()
    if i < x.size:
        out[i] = (tile[t] + tile[t + 1] + tile[t + 2]) / 3


@answer("block sum")
def block_sum(x, out):
    part = cuda.shared.array(64, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    part[t] = x[i] if i < x.size else 0
    cuda.syncthreads()
    half = 32
    while half > 0:
        if t < half:
            part[t] += part[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        out[cuda.blockIdx.x] = part[0]


@answer("block sum")
def block_sum_neighbours(x, out):
    part = cuda.shared.array(64, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    mine = float32(0)
    if i < x.size:
        mine = x[i]
    part[t] = mine
    step = 1
    while step < 64:
        cuda.syncthreads()
        if t % (2 * step) == 0:
            mine += part[t + step]
            part[t] = mine
        step *= 2
    if t == 0:
        out[cuda.blockIdx.x] = mine


@answer("dot")
def dot(x, y, out):
    part = cuda.shared.array(64, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    part[t] = x[i] * y[i] if i < x.size else 0
    cuda.syncthreads()
    for half in (32, 16, 8, 4, 2, 1):
        if t < half:
            part[t] += part[t + half]
        cuda.syncthreads()
    if t == 0:
        cuda.atomic.add(out, 0, part[0])


@answer("dot")
def dot_shared_atomic(x, y, out):
    whole = cuda.shared.array(1, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if t == 0:
        whole[0] = 0
    cuda.syncthreads()
    if i < x.size:
        cuda.atomic.add(whole, 0, x[i] * y[i])
    cuda.syncthreads()
    if t == 0:
        cuda.atomic.add(out, 0, whole[0])


@answer("histogram")
def histogram(x, counts):
    mine = cuda.shared.array(16, int32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if t < 16:
        mine[t] = 0
    cuda.syncthreads()
    if i < x.size:
        cuda.atomic.add(mine, x[i], 1)
    cuda.syncthreads()
    if t < 16:
        cuda.atomic.add(counts, t, mine[t])


@answer("histogram")
def histogram_if_any(x, counts):
    mine = cuda.shared.array(16, int32)
    t = cuda.threadIdx.x
    for bin_ in range(t, 16, cuda.blockDim.x):
        mine[bin_] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(mine, x[i], 1)
    cuda.syncthreads()
    if t < 16 and mine[t]:
        cuda.atomic.add(counts, t, mine[t])


@answer("scan")
def scan(x, out):
    part = cuda.shared.array(64, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    part[t] = x[i] if i < x.size else 0
    step = 1
    while step < 64:
        cuda.syncthreads()
        before = part[t - step] if t >= step else 0
        cuda.syncthreads()
        part[t] += before
        step *= 2
    if i < x.size:
        out[i] = part[t]


@answer("scan")
def scan_two_buffers(x, out):
    part = cuda.shared.array((2, 64), float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    value = x[i] if i < x.size else float32(0)
    now, step = 0, 1
    while step < 64:
        part[now, t] = value
        cuda.syncthreads()
        if t >= step:
            value += part[now, t - step]
        now, step = 1 - now, step * 2
    if i < x.size:
        out[i] = value


@answer("matmul")
def matmul(a, b, out):
    a_tile = cuda.shared.array((8, 8), float32)
    b_tile = cuda.shared.array((8, 8), float32)
    column, row = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for start in range(0, a.shape[1], 8):
        a_tile[ty, tx] = a[row, start + tx] if row < a.shape[0] and start + tx < a.shape[1] else 0
        b_tile[ty, tx] = b[start + ty, column] if start + ty < b.shape[0] and column < b.shape[1] else 0
        cuda.syncthreads()
        for k in range(8):
            total += a_tile[ty, k] * b_tile[k, tx]
        cuda.syncthreads()
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = total


@answer("matmul")
def matmul_short_tiles(a, b, out):
    a_tile = cuda.shared.array((8, 9), float32)
    b_tile = cuda.shared.array((8, 8), float32)
    column, row = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    depth, total = a.shape[1], float32(0)
    for start in range(0, depth, 8):
        cuda.syncthreads()
        if row < a.shape[0] and start + tx < depth:
            a_tile[ty, tx] = a[row, start + tx]
        if column < b.shape[1] and start + ty < depth:
            b_tile[ty, tx] = b[start + ty, column]
        cuda.syncthreads()
        if row < out.shape[0] and column < out.shape[1]:
            for k in range(min(8, depth - start)):
                total += a_tile[ty, k] * b_tile[k, tx]
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = total


@answer("warp sum")
def warp_sum(x, out):
    i = cuda.grid(1)
    value = x[i] if i < x.size else float32(0)
    for by in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, by)
    if i % 32 == 0:
        out[i // 32] = value


@answer("warp sum")
def warp_sum_butterfly(x, out):
    i = cuda.grid(1)
    value = float32(0)
    if i < x.size:
        value = x[i]
    by = 1
    while by < 32:
        value += cuda.shfl_xor_sync(0xFFFFFFFF, value, by)
        by *= 2
    if i % 32 == 5:
        out[i // 32] = value


@answer("gridding")
def grid(u, v, re, im, weight, grid_re, grid_im, grid_weight):
    i = cuda.grid(1)
    if i >= u.size:
        return
    size, w = grid_re.shape[0], weight[i]
    a, b, wre, wim = u[i], v[i], w * re[i], w * im[i]
    for sign in (1, -1):
        column = math.floor(sign * a + 0.5) + size // 2
        row = math.floor(sign * b + 0.5) + size // 2
        if 0 <= row < size and 0 <= column < size:
            cuda.atomic.add(grid_re, (row, column), wre)
            cuda.atomic.add(grid_im, (row, column), sign * wim)
            cuda.atomic.add(grid_weight, (row, column), w)


@answer("gridding")
def grid_one_rounding(u, v, re, im, weight, grid_re, grid_im, grid_weight):
    i = cuda.grid(1)
    n = grid_re.shape[0]
    if i < u.size:
        x, y = round(u[i]), round(v[i])
        w = weight[i]
        r, m = w * re[i], w * im[i]
        if 0 <= y + n // 2 < n and 0 <= x + n // 2 < n:
            at = (y + n // 2, x + n // 2)
            cuda.atomic.add(grid_re, at, r)
            cuda.atomic.add(grid_im, at, m)
            cuda.atomic.add(grid_weight, at, w)
        if 0 <= n // 2 - y < n and 0 <= n // 2 - x < n:
            at = (n // 2 - y, n // 2 - x)
            cuda.atomic.add(grid_re, at, r)
            cuda.atomic.sub(grid_im, at, m)
            cuda.atomic.add(grid_weight, at, w)
