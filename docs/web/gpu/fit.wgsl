// A step of the fit: five dispatches, of which four are fast Fourier transforms with
// something done on the way in and on the way out. A workgroup of 64 threads has a line
// of 256 numbers in its own memory. Lines are written down transposed, so that the next
// dispatch finds the columns as lines.
const N = 256u;
const T = 64u;

struct Place {
  @builtin(workgroup_id) group: vec3u, @builtin(local_invocation_id) local: vec3u
}
struct Settings { area: f32, share: f32, strength: f32, epsilon: f32, rate: f32 }

@group(0) @binding(0) var<storage, read_write> parameter: array<f32>;
@group(0) @binding(1) var<storage, read_write> image: array<f32>;
@group(0) @binding(2) var<storage, read_write> across: array<vec2f>;
@group(0) @binding(3) var<storage, read_write> down: array<vec2f>;
// Roots of one: WGSL's sin and cos may be off by 1/2048.
@group(0) @binding(4) var<storage, read> roots: array<vec2f>;
@group(0) @binding(5) var<storage, read> weight: array<f32>;
@group(0) @binding(6) var<storage, read> data: array<vec2f>;
@group(0) @binding(7) var<storage, read_write> chi2: array<f32>;
@group(0) @binding(8) var<storage, read_write> slope: array<f32>;
// Adam's means: of the slope, of its square, and how many steps there were.
@group(0) @binding(9) var<storage, read_write> means: array<vec4f>;
@group(0) @binding(10) var<storage, read> settings: Settings;

var<workgroup> line: array<vec2f, N>;
var<workgroup> sums: array<f32, T>;

fn times(a: vec2f, b: vec2f) -> vec2f {
  return vec2f(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

fn transform(t: u32, sign: f32) {  // radix 4, sorted as it goes (Stockham)
  let turned = vec2f(1.0, sign);
  workgroupBarrier();
  for (var s = 1u; s < N; s <<= 2u) {
    let k = t & (s - 1u); let m = k * (T / s); let to = ((t - k) << 2u) + k;
    let a = line[t]; let b = times(line[t + T], roots[m] * turned);
    let c = times(line[t + 2u * T], roots[2u * m] * turned);
    let d = times(line[t + 3u * T], roots[3u * m] * turned);
    let e = a + c; let f = a - c;
    let g = b + d; let h = sign * vec2f(d.y - b.y, b.x - d.x);
    workgroupBarrier();
    line[to] = e + g; line[to + s] = f + h;
    line[to + 2u * s] = e - g; line[to + 3u * s] = f - h;
    workgroupBarrier();
  }
}

@compute @workgroup_size(T)
fn brighten(place: Place) {
  let row = place.group.x; let t = place.local.x;
  for (var i = t; i < N; i += T) {
    let x = parameter[row * N + i];
    let brightness = max(x, 0.0) + log(1.0 + exp(-abs(x)));  // softplus
    image[row * N + i] = brightness;
    line[i] = vec2f(brightness, 0.0);
  }
  transform(t, -1.0);
  for (var i = t; i < N; i += T) { across[i * N + row] = line[i]; }
}

@compute @workgroup_size(T)
fn compare(place: Place) {
  let column = place.group.x; let t = place.local.x;
  for (var i = t; i < N; i += T) { line[i] = across[column * N + i]; }
  transform(t, -1.0);
  var sum = 0.0;
  for (var i = t; i < N; i += T) {
    let cell = i * N + column;
    let residual = settings.area * line[i] - data[cell];
    down[cell] = weight[cell] * residual;
    sum += weight[cell] * dot(residual, residual);
  }
  sums[t] = sum;
  workgroupBarrier();
  for (var s = T / 2u; s > 0u; s >>= 1u) {
    if (t < s) { sums[t] += sums[t + s]; }
    workgroupBarrier();
  }
  if (t == 0u) { chi2[column] = sums[0]; }
}

@compute @workgroup_size(T)
fn back_across(place: Place) {
  let row = place.group.x; let t = place.local.x;
  for (var i = t; i < N; i += T) { line[i] = down[row * N + i]; }
  transform(t, 1.0);
  for (var i = t; i < N; i += T) { across[i * N + row] = line[i]; }
}

@compute @workgroup_size(T)
fn back_down(place: Place) {
  let column = place.group.x; let t = place.local.x;
  for (var i = t; i < N; i += T) { line[i] = across[column * N + i]; }
  transform(t, 1.0);
  let scale = settings.area * settings.share;
  for (var i = t; i < N; i += T) { slope[i * N + column] = scale * line[i].x; }
}

// The image is packed: its centre is at [0, 0], and east, to which a map's columns
// fall, is where they grow.
fn at(row: u32, column: u32) -> f32 {
  return image[(row & (N - 1u)) * N + (column & (N - 1u))];
}

// The direction of the step to the next pixel of the map, and to the next row.
fn direction(row: u32, column: u32) -> vec2f {
  let edge = (column & (N - 1u)) == N / 2u || (row & (N - 1u)) == N / 2u - 1u;
  if (edge) { return vec2f(0.0); }
  let here = at(row, column);
  let rise = vec2f(at(row, column + N - 1u) - here, at(row + 1u, column) - here);
  return rise * inverseSqrt(dot(rise, rise) + settings.epsilon);
}

@compute @workgroup_size(16, 16)
fn descend(@builtin(global_invocation_id) thread: vec3u) {
  let row = thread.y; let column = thread.x; let p = row * N + column;
  let here = direction(row, column);
  let before = vec2f(direction(row, column + 1u).x, direction(row + N - 1u, column).y);
  let variation = before.x + before.y - here.x - here.y;
  let through = 1.0 / (1.0 + exp(-parameter[p]));  // the softplus
  let g = (slope[p] + settings.strength * variation) * through;
  let steps = means[p].z + 1.0;
  let mean = mix(g, means[p].x, 0.9); let square = mix(g * g, means[p].y, 0.999);
  means[p] = vec4f(mean, square, steps, 0.0);
  let mended = mean / (1.0 - pow(0.9, steps));  // of their start at zero
  let spread = sqrt(square / (1.0 - pow(0.999, steps))) + 1e-8;
  parameter[p] -= settings.rate * mended / spread;
}
