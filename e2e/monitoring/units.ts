// SPDX-License-Identifier: Apache-2.0

const mebibyte = 2 ** 20;

/** The upper end of a scale that a value in a unit of Grafana's fits into: 1, 2 or 5 times a power of ten. */
export function scaleOf(highest: number, unit: string): number {
  if (highest <= 0) return 1;
  if (unit === "bytes") return scaleOf(highest / mebibyte, "short") * mebibyte;
  const power = 10 ** Math.floor(Math.log10(highest));
  return power * ([1, 2, 5].find((step) => highest <= step * power) ?? 10);
}

/** A value in a unit of Grafana's, with three significant digits. */
export function valueText(value: number, unit: string): string {
  if (unit === "bytes") return `${short(value / mebibyte)} MiB`;
  if (unit === "reqps") return `${short(value)} req/s`;
  if (unit === "s")
    return value > 0 && value < 1 ? `${short(value * 1000)} ms` : `${short(value)} s`;
  return short(value);
}

function short(value: number): string {
  return String(Number(value.toPrecision(3)));
}
