import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import type { PluginConf } from "#cni/conf/plugin-conf.ts";
import type { NodeConfSpec } from "#daemon/config/config.ts";
import { namedPlugins, type OmittedPlugin } from "#engine/config.ts";
import type { ConfFiles } from "#engine/ports/host.ts";
import type { Logger } from "#engine/ports/logger.ts";
import { plexusConfName } from "#lib/files/default-paths.ts";
import { omitUndefined } from "#lib/omit-undefined.ts";
import { adopt, distinct, omissionOf } from "./chained.ts";
import { type PrimaryChoice, PrimaryChooser, type PrimaryTimes } from "./choose-primary.ts";
import {
  type CniConfDir,
  firstCopy,
  readCniConfDir,
  removeTemporaryFiles,
  unusedCopies,
  writePlexusConf,
} from "./conf-dir.ts";
import {
  type ForeignChange,
  findForeignChange,
  RestoreBackoffs,
  type RestoreTimings,
} from "./foreign-change.ts";
import { adoptedOf, type OwnConf, plexusConf, textOf, withAdopted } from "./plexus-conf.ts";
import { lookUpPlugin, missingPlugins } from "./plugin-lookup.ts";
import { checkPrerequisites } from "./prerequisites.ts";
import { PreviousPrimary } from "./previous-primary.ts";
import {
  type Chain,
  chainOf,
  type NodeConfStatus,
  primaryFileOf,
  statusWhenUpToDate,
} from "./status.ts";

/** Times of keeping the node's CNI configuration. */
export interface NodeConfTimings extends RestoreTimings, PrimaryTimes {
  /** How often everything is checked without a change. */
  readonly pollMs: number;
  /** The same in state `waiting`, whose cause may be outside of the watched directories. */
  readonly waitingPollMs: number;
  /** Delay between a change and the check: agents write several files. */
  readonly debounceMs: number;
}

export interface ReconcilerOptions {
  readonly spec: () => NodeConfSpec;
  /** Where the name of the primary CNI's file is kept. */
  readonly stateDir: string;
  readonly files: ConfFiles;
  readonly logger: Logger;
  readonly timings: NodeConfTimings;
}

/** What a round found, and how long to wait at most for the next one. */
export interface Round {
  readonly status: NodeConfStatus;
  readonly atMostMs: number;
}

/** Reconciles the runtime's directory with the specification. Only hand-back.ts removes the file. */
export class NodeConfReconciler {
  readonly #options: ReconcilerOptions;
  readonly #previous: PreviousPrimary;
  readonly #chooser: PrimaryChooser;
  readonly #backoffs: RestoreBackoffs;
  /** What plexusd owns of its file as written or to be restored; undefined when never written. */
  #own: OwnConf | undefined;
  /** What it tried to write last: a write that failed may have replaced the file nevertheless. */
  #tried: OwnConf | undefined;
  /** The plugins that followed Plexus's when the file was last usable. */
  #chained: readonly PluginConf[] = [];
  /** The chained plugins that other files have, and no agent appended. */
  #adopted: readonly OmittedPlugin[] = [];
  #chainedSince = performance.now();
  /** The chained plugins that were not installed at the start of the round. */
  #missing: readonly string[] = [];
  #chain: Chain = {};
  #spec: NodeConfSpec;
  /** Prerequisites of an ADD that plexusd cannot see. */
  #warning: string | undefined;

  constructor(options: ReconcilerOptions) {
    this.#options = options;
    this.#spec = options.spec();
    this.#previous = new PreviousPrimary(options.stateDir);
    const { files, timings } = options;
    this.#chooser = new PrimaryChooser(files, timings);
    this.#backoffs = new RestoreBackoffs(timings);
  }

  /** Reads the state of a previous process; once, before the first round. */
  async load(): Promise<void> {
    const { files } = this.#options;
    await removeTemporaryFiles(this.#spec.cniConfDir, files);
    const { text, conf } = await readCniConfDir(this.#spec.cniConfDir, files);
    this.#own = conf?.own;
    this.#previous.load(text);
  }

  /** One round. @throws Error when a directory cannot be read or written */
  async reconcile(): Promise<Round> {
    this.#spec = this.#options.spec();
    const dir = await readCniConfDir(this.#spec.cniConfDir, this.#options.files);
    if (isDeepStrictEqual(dir.conf?.own, this.#tried)) this.#own = this.#tried ?? this.#own;
    await this.#seeChained(dir);
    const choice = await this.#choose(dir);
    if (choice.kind !== "waiting") {
      const primary = choice.kind === "primary" ? choice.primary : undefined;
      const omitted = primary?.omitted ?? this.#chained.map(omissionOf).filter(isNamed);
      return this.#keep(dir, choice, plexusConf({ ...this.#spec, primary, omitted }));
    }
    // The last good file stays while its primary is broken or missing.
    if (this.#own !== undefined) return this.#keep(dir, choice, this.#own);
    return this.#round({ state: "waiting", reason: choice.reason }, choice);
  }

  /**
   * Remembers what follows Plexus's plugin, for a file that has to be restored. An agent that is
   * gone has removed its executable, so its plugin does not come back, and is not adopted.
   */
  async #seeChained(dir: CniConfDir): Promise<void> {
    const before = this.#chained;
    const copied = unusedCopies(dir).flatMap(({ conf }) => conf.chained);
    const known = distinct(dir.conf?.chained ?? before);
    this.#missing = await this.#missingOf([...known, ...copied]);
    const installed = (plugins: readonly PluginConf[]) => without(plugins, this.#missing);
    const found = adopt(dir.conf === undefined ? installed(known) : known, {
      adopted: adoptedOf(this.#own),
      copied: installed(copied),
      others: installed(dir.others),
    });
    this.#chained = found.chained;
    this.#adopted = found.adopted;
    if (!isDeepStrictEqual(this.#chained, before)) this.#chainedSince = performance.now();
    const chained = dir.conf === undefined ? [] : this.#chained;
    this.#chain = chainOf(dir, { chained, missing: this.#missing });
  }

  #missingOf(plugins: readonly PluginConf[]): Promise<string[]> {
    return missingPlugins(plugins, { ...this.#spec, files: this.#options.files });
  }

  async #choose(dir: CniConfDir): Promise<PrimaryChoice> {
    const { stateDir, files } = this.#options;
    const { problem, warning } = await checkPrerequisites({ spec: this.#spec, stateDir, files });
    if (problem !== undefined) return { kind: "waiting", reason: problem };
    this.#warning = warning;
    const chained = [this.#chained, firstCopy(dir)?.conf.chained ?? []].flat().map(omissionOf);
    return this.#chooser.choose(this.#spec, {
      previous: this.#previous.file,
      isFirst: this.#own === undefined,
      elsewhere: [...chained, ...(await this.#stillOmitted())],
    });
  }

  /**
   * What was left out stays out without its executable: Istio's agent removes its plugin only from
   * the file that it patched last, and then the executable. So it also stays out for a while after
   * a change of what follows Plexus's plugin.
   */
  async #stillOmitted(): Promise<OmittedPlugin[]> {
    const { files, timings } = this.#options;
    if (performance.now() - this.#chainedSince < timings.goneMs) return this.#omitted;
    const search = { ...this.#spec, files };
    const found = await Promise.all(this.#omitted.map(({ type }) => lookUpPlugin(type, search)));
    return this.#omitted.filter((_, i) => found[i]?.kind !== "there");
  }

  /** The plugins of agents that were left out until now. */
  get #omitted(): OmittedPlugin[] {
    return namedPlugins(this.#own?.plugins[0].omittedPlugins).filter(isNamed);
  }

  /** Writes Plexus's file unless it is as wanted, or the restore backs off. */
  async #keep(dir: CniConfDir, choice: PrimaryChoice, own: OwnConf): Promise<Round> {
    const wanted = withAdopted(own, this.#adopted);
    // A previous primary proves that the file was removed while plexusd was not running.
    const lost = this.#previous.file === undefined ? undefined : wanted;
    const undo = findForeignChange(dir, this.#own ?? lost);
    if (undo === undefined) {
      this.#backoffs.notNeeded();
    } else {
      this.#own = wanted;
      const atMostMs = this.#backoffs.waitMs(dir);
      if (atMostMs > 0) return { status: { ...undo, ...primaryFileOf(choice) }, atMostMs };
    }
    const conf = { own: wanted, chained: this.#chained };
    if (!isDeepStrictEqual(dir.conf, conf)) await this.#write(dir, { wanted, undo });
    if (choice.kind === "primary") await this.#previous.save(choice.primary.file);
    const now = await readCniConfDir(this.#spec.cniConfDir, this.#options.files);
    return this.#round(statusWhenUpToDate(choice, now), choice);
  }

  /**
   * If an agent writes at the same moment, its change wakes the next round, which writes. If an
   * agent removes its plugin just before the rename, the plugin would come back: it has then removed
   * its executable, too.
   */
  async #write(
    dir: Pick<CniConfDir, "text">,
    { wanted, undo }: { readonly wanted: OwnConf; readonly undo: ForeignChange | undefined },
  ): Promise<void> {
    const { cniConfDir } = this.#spec;
    const { logger } = this.#options;
    const text = textOf({ own: wanted, chained: this.#chained });
    const replaced = { inPlaceOf: dir.text, files: this.#options.files };
    this.#tried = wanted;
    if (!(await writePlexusConf(cniConfDir, text, replaced))) return;
    this.#own = wanted;
    const missing = await this.#missingOf(this.#chained);
    const gone = missing.filter((type) => !this.#missing.includes(type));
    if (gone.length > 0) {
      this.#chained = without(this.#chained, gone);
      return this.#write({ text }, { wanted, undo });
    }
    const path = join(cniConfDir, plexusConfName);
    if (undo === undefined) {
      logger.info({ path }, "node configuration written");
    } else {
      this.#backoffs.restored();
      logger.warn({ path, ...undo }, "node configuration restored");
    }
  }

  #round(found: NodeConfStatus, choice: PrimaryChoice): Round {
    const primary = choice.kind === "primary" ? choice.primary : undefined;
    const warning = [this.#warning, primary?.warning]
      .filter((each) => each !== undefined)
      .join("; ");
    const omitted = (primary?.omitted ?? []).map(({ type }) => type);
    const next = choice.kind === "not-needed" ? undefined : choice.next;
    const status = omitUndefined({
      ...found,
      ...this.#chain,
      omitted: omitted.length === 0 ? undefined : omitted,
      warning: warning === "" ? undefined : warning,
      next: next && { file: next.file, at: next.at },
    });
    const { pollMs, waitingPollMs } = this.#options.timings;
    const dueMs = status.state === "active" ? pollMs : waitingPollMs;
    return { status, atMostMs: Math.min(dueMs, next?.inMs ?? dueMs) };
  }
}

/** Agents name their plugins. */
function isNamed({ name }: OmittedPlugin): boolean {
  return typeof name === "string";
}

function without(plugins: readonly PluginConf[], types: readonly string[]): PluginConf[] {
  return plugins.filter(({ type }) => !types.includes(type));
}
