// What is there when a part runs: the texts of the kernels, which _ext/your_gpu.py adds, and the page's chart.js.
declare const KERNELS: Record<string, string>;
declare const chart: any;
