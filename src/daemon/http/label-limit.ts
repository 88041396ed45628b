/** Limits the number of a label's values: further ones become `other`. */
export class LabelLimit {
  readonly #max: number;
  readonly #known = new Set<string>();

  constructor(max: number) {
    this.#max = max;
  }

  label(value: string): string {
    if (this.#known.has(value)) return value;
    if (this.#known.size >= this.#max) return "other";
    this.#known.add(value);
    return value;
  }
}
