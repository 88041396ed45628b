import type { RuntimeSandboxes, SandboxList } from "#engine/ports/host.ts";

/** A list that a test writes. */
export class FakeRuntimeSandboxes implements RuntimeSandboxes {
  list: SandboxList | undefined;
  /** Thrown instead, when set. */
  failure: Error | undefined;
  #made = 0;

  /** A new list, of these containers. */
  make(...containerIds: string[]): void {
    this.#made += 1;
    this.list = { listedAt: `list ${this.#made}`, containerIds: new Set(containerIds) };
  }

  async latest(): Promise<SandboxList | undefined> {
    if (this.failure !== undefined) throw this.failure;
    return this.list;
  }
}
