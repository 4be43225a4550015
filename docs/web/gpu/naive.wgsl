// c = a b, one element a thread: each walks along a row of a and down a column of b.
override n: u32 = 16;

@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> c: array<f32>;

@compute @workgroup_size(16, 16)
fn main(@builtin(global_invocation_id) thread: vec3u) {
  let column = thread.x; let row = thread.y;
  if (row >= n || column >= n) { return; }
  var total = 0.0;
  for (var k = 0u; k < n; k++) {
    total = fma(a[row * n + k], b[k * n + column], total);
  }
  c[row * n + column] = total;
}
