// c = a b, where a workgroup fetches a tile of each matrix together, into its own
// memory, and uses it sixteen times.
override n: u32 = 16;

@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> c: array<f32>;
var<workgroup> a_tile: array<array<f32, 16>, 16>;
var<workgroup> b_tile: array<array<f32, 16>, 16>;

@compute @workgroup_size(16, 16)
fn main(
  @builtin(global_invocation_id) thread: vec3u, @builtin(local_invocation_id) t: vec3u
) {
  let column = thread.x; let row = thread.y;
  var total = 0.0;
  for (var first = 0u; first < n; first += 16) {
    let x = first + t.x; let y = first + t.y;
    a_tile[t.y][t.x] = select(0.0, a[row * n + x], row < n && x < n);
    b_tile[t.y][t.x] = select(0.0, b[y * n + column], y < n && column < n);
    workgroupBarrier();
    for (var k = 0u; k < 16; k++) {
      total = fma(a_tile[t.y][k], b_tile[k][t.x], total);
    }
    workgroupBarrier();
  }
  if (row < n && column < n) { c[row * n + column] = total; }
}
