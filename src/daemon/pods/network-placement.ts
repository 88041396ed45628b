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
/** After a failure: hundreds of nodes may lack the permission at the same time. */
const retryMs = 60_000;
const messageMax = 1024;

interface NetworkPlacementOptions {
  readonly marks: () => readonly NodeMark[];
  /** The networks whose definitions ask for a label; undefined while they are not known. @throws Error */
  readonly networks: () => Promise<readonly NetworkOnNode[] | undefined>;
  readonly readiness: () => readonly string[];
  /** This node's Node. @throws Error when it cannot be read or written */
  readonly node: {
    read(): Promise<NodeMarks>;
    write(before: NodeMarks, after: NodeMarks): Promise<void>;
  };
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
  /** The labels of the networks that could be used in the last run. */
  #usable: ReadonlySet<string> | undefined;
  #failure: { readonly error: unknown; readonly at: number } | undefined;
  /** Which networks can be used on this node, as of the last run. */
  latest: readonly NetworkOnNode[] = [];

  constructor(options: NetworkPlacementOptions) {
    this.#options = options;
  }

  /**
   * Writes what has changed, in one request. Call it regularly. A network is there at once, and gone
   * only after two runs: links flap, and an API server that starts may lack definitions. @throws Error
   */
  async run(): Promise<void> {
    const { marks, networks } = this.#options;
    const wanted = marks();
    if (wanted.length === 0 && this.#usable === undefined) return;
    if (this.#failure !== undefined && performance.now() < this.#failure.at + retryMs) {
      throw this.#failure.error;
    }
    this.#failure = undefined;
    const found = wanted.length === 0 ? [] : await networks();
    if (found === undefined) return;
    const asking = found.filter(({ label }) => label !== undefined);
    this.latest = asking.slice(0, networksMax);
    try {
      await this.#write(wanted);
    } catch (error) {
      this.#known = undefined;
      this.#failure = { error, at: performance.now() };
      throw error;
    }
    if (wanted.length === 0) this.#usable = undefined;
    if (asking.length > networksMax) throw new Error(tooMany(asking.length));
  }

  async #write(wanted: readonly NodeMark[]): Promise<void> {
    const { node } = this.#options;
    const isOld = performance.now() > this.#readAt + againMs;
    const before = (isOld ? undefined : this.#known) ?? (await this.#read());
    const { labels, capacity: resources } = before;
    const usable = new Set(this.latest.flatMap((each) => (each.usable ? (each.label ?? []) : [])));
    const last = this.#usable ?? new Set(Object.keys({ ...labels, ...resources }));
    const after = this.#marksOf(usable.union(last), wanted);
    await node.write(before, after);
    this.#known = after;
    this.#usable = usable;
  }

  async #read(): Promise<NodeMarks> {
    this.#readAt = performance.now();
    return this.#options.node.read();
  }

  #marksOf(present: ReadonlySet<string>, wanted: readonly NodeMark[]): NodeMarks {
    const all = (mark: NodeMark, value: string): Record<string, string> =>
      wanted.includes(mark)
        ? Object.fromEntries([...present].toSorted().map((label) => [label, value]))
        : {};
    return omitUndefined({
      labels: all("labels", "true"),
      capacity: all("resources", capacity),
      condition: wanted.includes("condition") ? this.#condition(present) : undefined,
    });
  }

  #condition(present: ReadonlySet<string>): NodeMarks["condition"] {
    const [notReady] = this.#options.readiness();
    const lacking = this.latest.filter(({ label = "" }) => !present.has(label));
    const [first] = lacking;
    if (notReady === undefined && first === undefined) {
      const message = `all ${this.latest.length} networks can be used`;
      return { status: "True", reason: "NetworkAvailable", message };
    }
    const others = lacking.length > 1 ? `, and ${lacking.length - 1} more` : "";
    const text = first === undefined ? "" : `${first.network}: ${first.message}${others}`;
    const message = shortened(notReady === undefined ? text : `plexusd: ${notReady}`, messageMax);
    return { status: "False", reason: "NetworkUnavailable", message };
  }
}

function tooMany(count: number): string {
  return `${count} definitions have plexus.dev/schedule; the Node has the first ${networksMax} by name`;
}
