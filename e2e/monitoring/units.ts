// SPDX-License-Identifier: Apache-2.0

/** The upper end of a scale that a value fits into: 1, 2 or 5 times a power of ten. */
export function scaleOf(highest: number): number {
  if (highest <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(highest));
  return power * ([1, 2, 5].find((step) => highest <= step * power) ?? 10);
}

/** A value in a unit of Grafana's, with three significant digits. */
export function valueText(value: number, unit: string): string {
  if (unit === "bytes") return `${short(value / 2 ** 20)} MiB`;
  if (unit === "reqps") return `${short(value)} req/s`;
  if (unit === "s")
    return value > 0 && value < 1 ? `${short(value * 1000)} ms` : `${short(value)} s`;
  return short(value);
}

function short(value: number): string {
  return String(Number(value.toPrecision(3)));
}
