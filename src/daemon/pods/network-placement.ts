import { isDeepStrictEqual } from "node:util";
import type { NetworkOnNode } from "#engine/inventory/inventory.ts";
import type { NodeMarks } from "#kube/node/node-marks.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { shortened } from "#lib/one-line.ts";

/** What plexusd writes about networks to its Node. */
export type NodeMark = "labels" | "resources" | "condition";

/** More would make a Node too large: everything that watches Nodes gets all of it with each change. */
const networksMax = 256;
/** More than pods of a node. As the API server prints 1000. */
const capacity = "1k";
/** The kubelet sets resources to zero when its state was lost, and people change labels. */
const againMs = 600_000;
/** After a failure, at least: hundreds of nodes may lack the permission at the same time. */
const retryMs = 60_000;
/** Between writes after the second run in a row that has one: a definition may change all the time. */
const writeMs = 60_000;
const messageMax = 1024;

interface NetworkPlacementOptions {
  readonly marks: () => readonly NodeMark[];
  /** The networks whose definitions ask for a label; undefined while they are not known. @throws Error */
  readonly networks: () => Promise<readonly NetworkOnNode[] | undefined>;
  /** Why plexusd does not serve the node, except that it is stopping. */
  readonly readiness: () => readonly string[];
  /** This node's Node. @throws Error when it cannot be read or written */
  readonly node: {
    read(): Promise<NodeMarks>;
    write(before: NodeMarks, after: NodeMarks): Promise<void>;
  };
}

/** What a run has found. */
interface Found {
  /** Undefined while they are not known. */
  readonly networks: readonly NetworkOnNode[] | undefined;
  readonly notReady: string | undefined;
}

/**
 * Keeps on this node's Node which networks can be used on it, so that the scheduler knows. Without
 * marks in the configuration, it asks and writes nothing; without those that were there, it removes
 * them.
 */
export class NetworkPlacement {
  readonly #options: NetworkPlacementOptions;
  /** What the Node has; undefined if that may have changed. */
  #known: NodeMarks | undefined;
  #readAt = 0;
  /** The labels, of those that the Node may have, whose networks could be used in the last run. */
  #usable: ReadonlySet<string> | undefined;
  /** Whether the last run found the condition false. */
  #wasFalse = false;
  /** How many runs in a row have written, and when the last of them did. */
  #written = { inRow: 0, at: 0 };
  #failure: { readonly error: unknown; readonly until: number } | undefined;
  /** Which networks can be used on this node, as of the last run; first those that the Node has. */
  latest: readonly NetworkOnNode[] = [];

  constructor(options: NetworkPlacementOptions) {
    this.#options = options;
  }

  /**
   * Writes what has changed, in one request. Call it regularly. A network is there at once, and gone
   * only after two runs: links flap, and an API server that starts may lack definitions. @throws Error
   */
  async run(): Promise<void> {
    const wanted = this.#options.marks();
    if (wanted.length === 0 && this.#usable === undefined) return;
    if (this.#failure !== undefined && performance.now() < this.#failure.until) {
      throw this.#failure.error;
    }
    this.#failure = undefined;
    const found = await this.#look(wanted);
    if (found === undefined) return;
    try {
      await this.#write(wanted, found);
    } catch (error) {
      this.#known = undefined;
      this.#failure = { error, until: performance.now() + retryMs * (1 + Math.random()) };
      throw error;
    }
    const { size } = usableOf(found.networks);
    if (size > networksMax) throw new Error(tooMany(size));
  }

  /** Undefined if nothing is known that the marks are about. @throws Error */
  async #look(wanted: readonly NodeMark[]): Promise<Found | undefined> {
    const [notReady] = wanted.includes("condition") ? this.#options.readiness() : [];
    const networks = wanted.length === 0 ? [] : await this.#options.networks();
    if (networks === undefined && notReady === undefined) return undefined;
    return { networks: networks?.filter(({ label }) => label !== undefined), notReady };
  }

  async #write(wanted: readonly NodeMark[], { networks, notReady }: Found): Promise<void> {
    if (this.#known === undefined || performance.now() > this.#readAt + againMs) {
      this.#readAt = performance.now();
      this.#known = await this.#options.node.read();
    }
    const before = this.#known;
    const last = this.#usable ?? new Set(Object.keys({ ...before.labels, ...before.capacity }));
    const usable = networks === undefined ? last : usableOf(networks);
    // Those that are there stay: a tenant's definitions must not push out those of others.
    const present = new Set([...last.union(usable)].slice(0, networksMax));
    const isAbsent = ({ label = "" }: NetworkOnNode): number => (present.has(label) ? 0 : 1);
    const sorted = networks?.toSorted((a, b) => isAbsent(a) - isAbsent(b));
    this.latest = sorted?.slice(0, networksMax) ?? this.latest;
    // Before the write, which may take effect although its answer is lost.
    this.#usable = usable.intersection(present);
    const all = (mark: NodeMark, value: string): Record<string, string> =>
      wanted.includes(mark)
        ? Object.fromEntries([...present].toSorted().map((label) => [label, value]))
        : {};
    const after: NodeMarks = omitUndefined({
      labels: all("labels", "true"),
      capacity: all("resources", capacity),
      condition: wanted.includes("condition")
        ? this.#condition({ networks, notReady }, before.condition)
        : undefined,
    });
    const inRow = isDeepStrictEqual(before, after) ? 0 : this.#written.inRow + 1;
    if (inRow > 2 && performance.now() < this.#written.at + writeMs) return;
    await this.#options.node.write(before, after);
    this.#known = after;
    this.#written = { inRow, at: performance.now() };
    if (wanted.length === 0) this.#usable = undefined;
  }

  #condition({ networks = [], notReady }: Found, before: NodeMarks["condition"]) {
    const [first, ...others] = networks.filter(({ usable }) => !usable);
    const wasFalse = this.#wasFalse;
    this.#wasFalse = notReady !== undefined || first !== undefined;
    if (!this.#wasFalse) {
      const message = `all ${networks.length} networks can be used`;
      return { status: "True", reason: "NetworkAvailable", message };
    }
    // Links flap, and a plexusd that starts is not ready at once.
    if (!wasFalse && before?.status === "True") return before;
    // No text of a link that is missing: it may name another one, which comes and goes.
    const more = others.length > 0 ? `, and ${others.length} more` : "";
    const text = notReady ? `plexusd: ${notReady}` : `${first?.network}: ${first?.reason}${more}`;
    const message = shortened(text, messageMax);
    return { status: "False", reason: "NetworkUnavailable", message };
  }
}

/** The labels of the networks that can be used. */
function usableOf(networks: Found["networks"] = []): ReadonlySet<string> {
  return new Set(networks.flatMap(({ label, usable }) => (usable && label) || []));
}

function tooMany(count: number): string {
  return `${count} networks with plexus.dev/schedule can be used; the Node has ${networksMax} of them`;
}
