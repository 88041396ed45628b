/** Keeps the number of a label's values bounded: those beyond the first few become `other`. */
export class LabelLimit {
  readonly #max: number;
  readonly #known = new Set<string>();

  constructor(max: number) {
    this.#max = max;
  }

  /** The value itself, or `other` once there are too many. */
  label(value: string): string {
    if (this.#known.has(value)) return value;
    if (this.#known.size >= this.#max) return "other";
    this.#known.add(value);
    return value;
  }
}
