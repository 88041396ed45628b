import { isDeepStrictEqual } from "node:util";
import { Backoff, type BackoffOptions } from "#lib/concurrency/backoff.ts";
import { plexusConfName } from "#lib/files/default-paths.ts";
import type { CniConfDir } from "./conf-dir.ts";
import { type OwnConf, pluginsOf } from "./plexus-conf.ts";
import type { NodeConfStatus } from "./status.ts";

/** What another process did to Plexus's file, as a state and its reason. */
export type ForeignChange = Pick<NodeConfStatus, "state" | "reason">;

/**
 * What others did to Plexus's file; `written` is what plexusd last wrote or read, if anything.
 * plexusd leaves what they append, and the order of keys, to them.
 */
export function findForeignChange(
  { text, conf, renamed }: CniConfDir,
  written: OwnConf | undefined,
): ForeignChange | undefined {
  if (written === undefined || isDeepStrictEqual(conf?.own, written)) return undefined;
  if (text !== undefined) {
    const reason = `the content of ${plexusConfName} was changed by someone else`;
    return { state: "missing", reason };
  }
  const [to] = renamed;
  return to === undefined
    ? { state: "missing", reason: `${plexusConfName} was removed by someone else` }
    : { state: "foreign-rename", reason: `${plexusConfName} was renamed to ${to} by someone else` };
}

/** Whether the file is empty or torn. No agent wants that, so plexusd restores it soon each time. */
function isUnusable({ text }: CniConfDir): boolean {
  return text !== undefined && pluginsOf(text).length === 0;
}

export interface RestoreTimings {
  /** Of a file that another agent removed, renamed or changed. */
  readonly restore: BackoffOptions;
  /** Of an unusable file: the first delay is for an agent that empties the file before it writes. */
  readonly repair: BackoffOptions;
  /** After this time without a foreign change, a backoff restarts. */
  readonly calmMs: number;
}

/** Backs off restores: Cilium's exclusive mode, for example, removes other files at each start. */
export class RestoreBackoffs {
  readonly #calmMs: number;
  readonly #restore: RestoreBackoff;
  readonly #repair: RestoreBackoff;
  /** The one for the last change that was seen. */
  #current: RestoreBackoff;

  constructor({ restore, repair, calmMs }: RestoreTimings) {
    this.#calmMs = calmMs;
    this.#restore = { delays: new Backoff(restore), restoredAt: Number.NEGATIVE_INFINITY };
    this.#repair = { delays: new Backoff(repair), restoredAt: Number.NEGATIVE_INFINITY };
    this.#current = this.#restore;
  }

  /** How long the restore still has to wait; 0 when it is due. */
  waitMs(changed: CniConfDir): number {
    const now = performance.now();
    const current = isUnusable(changed) ? this.#repair : this.#restore;
    this.#current = current;
    if (current.dueAt === undefined && now - current.restoredAt > this.#calmMs)
      current.delays.reset();
    current.dueAt ??= now + current.delays.next();
    return Math.max(0, current.dueAt - now);
  }

  restored(): void {
    this.#current.restoredAt = performance.now();
    this.notNeeded();
  }

  notNeeded(): void {
    this.#restore.dueAt = undefined;
    this.#repair.dueAt = undefined;
  }
}

interface RestoreBackoff {
  readonly delays: Backoff;
  restoredAt: number;
  /** Undefined while no restore is needed. */
  dueAt?: number | undefined;
}
