import { expect } from "vitest";
import type { EngineConfig } from "#engine/config.ts";
import { Engine } from "#engine/engine.ts";
import type { Assertion } from "#engine/ports/assertions.ts";
import { type CallAnswer, readCall, type ServedCall } from "#engine/ports/call.ts";
import type { DeviceSource } from "#engine/ports/devices.ts";
import type { EngineDeps, EngineMetrics, LeftoverDuty } from "#engine/ports/engine-deps.ts";
import type { JsonObject } from "#lib/json.ts";
import { FakeConfFiles, FakeDeviceInfoFiles, FakeMultusFiles } from "./fake-files.ts";
import { FakeHost } from "./fake-host.ts";
import { FakeKernel } from "./fake-kernel.ts";
import { FakeLogger } from "./fake-logger.ts";
import { FakePlugins } from "./fake-plugins.ts";
import { FakeEvents, FakePublisher } from "./fake-publisher.ts";
import { FakeRecords } from "./fake-records.ts";
import { FakeSource } from "./fake-source.ts";

/** The sandbox of calls that name no other. */
export const sandbox = { containerId: "c1", ifName: "eth0" };
/** Its network namespace. */
export const netns = "/run/netns/c1";

/** The boot of a lab's machine. */
export const bootId = "b0070001-0000-4000-8000-000000000000";

/** How a lab is set up. */
export interface LabOptions {
  /** The runtime's conf beyond its name, version and type. @default delegates with the plugin `ptp` */
  readonly conf?: JsonObject;
  /** The daemon's own configuration. */
  readonly config?: Partial<EngineConfig>;
  readonly noSource?: boolean;
  /** Where definitions come from. @default the source of pods */
  readonly definitions?: NonNullable<EngineDeps["definitions"]>;
  /** Whether calls repeat the teardowns that others left behind. @default false */
  readonly leftoverDuty?: LeftoverDuty;
  /** For how long the machine has run when the engine starts. @default 0 */
  readonly uptimeMs?: number;
  /** Sources of allocated devices. @default none */
  readonly deviceSources?: readonly DeviceSource[];
  readonly nextPlugins?: NonNullable<EngineDeps["nextPlugins"]>;
  /** Whether the engine sees namespaces, as on the host itself. @default false */
  readonly seesNamespaces?: boolean;
}

/** How one call differs from a plain one. */
interface CallOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** Merged over the lab's conf. */
  readonly conf?: JsonObject;
  /** Instead of all of the conf. */
  readonly stdin?: string;
  /** The pod, as `namespace/name` or `namespace/name/uid`; none = a sandbox that is no pod. */
  readonly pod?: string;
  readonly host?: FakeHost;
  /** Runs between the end of the call and {@link ServedCall.afterAnswer}. */
  readonly beforeAnswered?: () => Promise<void>;
}

/** The answer of a call, with its stdout decoded. */
interface LabAnswer extends CallAnswer {
  readonly json: JsonObject;
}

/** The variable of a call whose shim has started so long before the engine gets it. */
export function startedBefore(lab: EngineLab, waitedMs: number): Record<string, string> {
  return { PLEXUS_STARTED_MONOTONIC_US: String((lab.clockMs - waitedMs) * 1000) };
}

/** A conflist of the given plugins. */
export function network(name: string, ...types: string[]): JsonObject {
  return { cniVersion: "1.0.0", name, plugins: types.map((type) => ({ type })) };
}

/** Expects an error object with this code, of whose message this is a part. */
export function expectError(
  { json }: { readonly json: JsonObject },
  code: number,
  says: string | RegExp,
): void {
  const isText = typeof says === "string";
  const msg = isText ? expect.stringContaining(says) : expect.stringMatching(says);
  expect(json).toMatchObject({ code, msg });
}

/** An engine with all its ports faked, and a runtime that calls it. */
export class EngineLab {
  /** What happened to plugins, records and status, in order. */
  readonly journal: string[] = [];
  readonly kernel = new FakeKernel();
  readonly plugins = new FakePlugins(this.kernel, this.journal);
  readonly records = new FakeRecords(this.journal);
  /** Of another engine on the node. */
  readonly otherRecords = new FakeRecords([]);
  readonly source = new FakeSource();
  readonly publisher = new FakePublisher(this.journal);
  readonly events = new FakeEvents();
  readonly files = new FakeConfFiles();
  readonly multusFiles = new FakeMultusFiles();
  readonly deviceInfo = new FakeDeviceInfoFiles();
  readonly logger = new FakeLogger();
  readonly measured: string[] = [];
  /** Any other assertion fails the test. */
  expectedToBreak: Assertion | undefined;
  readonly engine: Engine;
  /** Read anew by every call. */
  config: Partial<EngineConfig>;
  conf: JsonObject;
  /** Another one after a restart of the machine. */
  bootId = bootId;
  #milliseconds: number;
  #advancedMs = 0;

  constructor(options: LabOptions = {}) {
    this.conf = options.conf ?? { delegates: [network("default-net", "ptp")] };
    this.config = options.config ?? {};
    this.#milliseconds = options.uptimeMs ?? 0;
    this.kernel.addNamespace(netns);
    const { source, publisher, events, records, files: confFiles, deviceInfo, logger } = this;
    this.engine = new Engine({
      config: () => this.config,
      ...(options.noSource === true ? {} : { source }),
      ...(options.definitions && { definitions: options.definitions }),
      publisher,
      events,
      records,
      otherRecords: this.otherRecords,
      confFiles,
      multusFiles: this.multusFiles,
      deviceInfo,
      deviceSources: options.deviceSources ?? [],
      logger,
      metrics: this.#metrics(),
      clock: () => ++this.#milliseconds,
      now: () => this.now(),
      bootId: () => this.bootId,
      isNothingAt: (path) => options.seesNamespaces === true && !this.kernel.hasNamespace(path),
      leftoverDuty: options.leftoverDuty ?? "none",
      nextPlugins: options.nextPlugins ?? (async () => []),
    });
  }

  host(): FakeHost {
    return new FakeHost(this);
  }

  /** Calls the engine as a container runtime does. */
  async call(command: string, options: CallOptions = {}): Promise<LabAnswer> {
    const variables: Record<string, string> = { ...this.#env(command, options), ...options.env };
    const env = { ...this.#links(variables), ...variables };
    const conf = { cniVersion: "1.0.0", name: "plexus", type: "plexus", ...this.conf };
    const stdin = options.stdin ?? JSON.stringify({ ...conf, ...options.conf });
    if (command === "DEL") {
      const { CNI_CONTAINERID: containerId = "", CNI_IFNAME: ifName = "" } = env;
      this.records.beginDel({ containerId, ifName }, this.now());
    }
    const serving = this.engine.handle(readCall({ env, stdin }), options.host ?? this.host());
    // When the shim has gone, the record may still be written.
    await serving.catch(() => new Promise(setImmediate));
    const { answer, log, afterAnswer } = await serving;
    await options.beforeAnswered?.();
    log();
    afterAnswer();
    // What the runtime does not wait for.
    await new Promise(setImmediate);
    return { ...answer, json: answer.stdout === "" ? {} : JSON.parse(answer.stdout) };
  }

  add(options?: CallOptions): Promise<LabAnswer> {
    return this.call("ADD", options);
  }

  del(options?: CallOptions): Promise<LabAnswer> {
    return this.call("DEL", options);
  }

  check(options?: CallOptions): Promise<LabAnswer> {
    return this.call("CHECK", options);
  }

  /** GC with a list of (containerID, "eth0"), or with none at all. */
  gc(
    containers: readonly string[] | null | undefined,
    options: CallOptions = {},
  ): Promise<LabAnswer> {
    const list = containers?.map((containerID) => ({ containerID, ifname: "eth0" })) ?? null;
    const key = containers === undefined ? {} : { "cni.dev/valid-attachments": list };
    return this.call("GC", { ...options, conf: { cniVersion: "1.1.0", ...key, ...options.conf } });
  }

  status(options: CallOptions = {}): Promise<LabAnswer> {
    return this.call("STATUS", { ...options, conf: { cniVersion: "1.1.0", ...options.conf } });
  }

  /** What the engine's clock shows. */
  get clockMs(): number {
    return this.#milliseconds;
  }

  /** Lets time pass, on every clock. */
  advance(milliseconds: number): void {
    this.#milliseconds += milliseconds;
    this.#advancedMs += milliseconds;
  }

  /** Sets the machine's clock by so much, as NTP does after a start; negative = back. */
  stepClock(milliseconds: number): void {
    this.#advancedMs += milliseconds;
  }

  /** One second later with every write of a record, and as much later as {@link advance} said. */
  now(): string {
    const ms = Date.UTC(2026, 0, 1) + this.records.writeCount * 1000 + this.#advancedMs;
    return new Date(ms).toISOString().replace(".000Z", "Z");
  }

  #env(command: string, options: CallOptions): Record<string, string> {
    const [namespace = "", name = "", uid] = options.pod?.split("/") ?? [];
    const args = [
      "IgnoreUnknown=1",
      ...(options.pod === undefined
        ? []
        : [`K8S_POD_NAMESPACE=${namespace}`, `K8S_POD_NAME=${name}`]),
      ...(uid === undefined ? [] : [`K8S_POD_UID=${uid}`]),
    ];
    const common = { CNI_COMMAND: command, CNI_PATH: "/opt/cni/bin" };
    if (command === "GC" || command === "STATUS") return common;
    const { containerId, ifName } = sandbox;
    return {
      ...common,
      CNI_CONTAINERID: containerId,
      CNI_IFNAME: ifName,
      CNI_NETNS: netns,
      PLEXUS_NETNS: this.kernel.hasNamespace(netns) ? "ok" : "gone",
      CNI_ARGS: args.join(";"),
    };
  }

  /** The interfaces of the call's namespace, which the shim lists for an ADD. */
  #links({
    CNI_COMMAND,
    CNI_NETNS = "",
  }: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
    if (CNI_COMMAND !== "ADD" || !this.kernel.hasNamespace(CNI_NETNS)) return {};
    const names = this.kernel.linkNames(CNI_NETNS).map((name) => `${name}/`);
    return { PLEXUS_LINKS: `lo/${names.join("")}` };
  }

  #metrics(): EngineMetrics {
    return {
      requestStarted: (command) => void this.measured.push(`start ${command}`),
      requestEnded: (command, { code }) => void this.measured.push(`end ${command} ${code ?? 0}`),
      delegateEnded: ({ type, command, network: name, ok }) =>
        void this.measured.push(`${type} ${command} ${name} ${ok ? "ok" : "failed"}`),
      assertionBroken: (assertion) => {
        if (this.expectedToBreak !== assertion) throw new Error(`${assertion} is broken`);
        this.measured.push(`broken ${assertion}`);
      },
    };
  }
}
