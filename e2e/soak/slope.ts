/** A straight line through points: how much y grows per x. */
export interface Slope {
  readonly slope: number;
  /** Of the slope: about two of them around it are what chance explains. */
  readonly standardError: number;
}

/** One measurement: after how many cycles, how much. */
export interface Point {
  readonly x: number;
  readonly y: number;
}

/** Fits a line by least squares. @throws Error with fewer than three points */
export function fitLine(points: readonly Point[]): Slope {
  const n = points.length;
  if (n < 3) throw new Error(`a line through ${n} points says nothing`);
  const mean = (of: (p: Point) => number): number => points.reduce((s, p) => s + of(p), 0) / n;
  const [mx, my] = [mean((p) => p.x), mean((p) => p.y)];
  const sxx = points.reduce((s, p) => s + (p.x - mx) ** 2, 0);
  const slope = points.reduce((s, p) => s + (p.x - mx) * (p.y - my), 0) / sxx;
  const residuals = points.reduce((s, p) => s + (p.y - my - slope * (p.x - mx)) ** 2, 0);
  return { slope, standardError: Math.sqrt(residuals / (n - 2) / sxx) };
}

/**
 * The points of `bins` equal stretches of x, the median of each: neighbours in time depend on each
 * other, which would make the line look more certain than it is, and single peaks say nothing.
 */
export function binMedians(points: readonly Point[], bins: number): Point[] {
  const xs = points.map((p) => p.x);
  const [from, to] = [Math.min(...xs), Math.max(...xs)];
  const groups: Point[][] = Array.from({ length: bins }, () => []);
  for (const point of points) {
    const at = Math.floor(((point.x - from) / (to - from || 1)) * bins);
    groups[Math.min(at, bins - 1)]?.push(point);
  }
  return groups.filter((g) => g.length > 0).map((g) => ({ x: median(g, "x"), y: median(g, "y") }));
}

function median(points: readonly Point[], key: "x" | "y"): number {
  const sorted = points.map((p) => p[key]).sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const [low = 0, high = 0] = [sorted[middle - 1], sorted[middle]];
  return sorted.length % 2 === 1 ? high : (low + high) / 2;
}
