import type { ApiError } from "#kube/api/api-error.ts";

/** The resource versions from which the next LIST and the next WATCH of a resource type start. */
export class WatchPosition {
  #watchFrom: string | undefined;
  #listFrom = "0";

  /** Where the next watch starts; undefined = a LIST first. */
  get watchFrom(): string | undefined {
    return this.#watchFrom;
  }

  /** What the next LIST must be no older than; "0" lets the server answer from its own cache, "" does not. */
  get listFrom(): string {
    return this.#listFrom;
  }

  /** Everything up to this version has been taken in. */
  reached(version: string): void {
    this.#watchFrom = version;
    this.#listFrom = version;
  }

  /** A request was refused. Where the reason is its version, the next one is without it. */
  refused(error: ApiError): void {
    if (isVersionUnusable(error) || error.status === 404) {
      if (this.#watchFrom === undefined) this.#listFrom = "";
      this.#watchFrom = undefined;
      return;
    }
    // 504 to a LIST: the server's own cache is behind the version.
    if (error.status === 504 && this.#watchFrom === undefined) this.#listFrom = "";
  }

  /** Whatever was known is void. */
  restart(): void {
    this.#listFrom = "0";
  }
}

/** Whether the server no longer keeps the version that was asked for. */
export function isVersionUnusable(error: ApiError): boolean {
  return error.status === 410 || error.reason === "Expired";
}
