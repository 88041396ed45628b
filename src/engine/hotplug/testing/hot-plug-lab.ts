import { expect } from "vitest";
import type { HotPlugOutcome } from "#engine/hotplug/reports/outcome.ts";
import type { PodState } from "#engine/ports/cluster.ts";
import type { RecordedAttachment } from "#engine/record/record.ts";
import { type EngineLab, sandbox } from "#engine/testing/engine-lab.ts";
import { attachedPod } from "#engine/testing/pod-lab.ts";
import type { Json } from "#lib/json.ts";
import { networksAnnotation } from "#npwg/selection/selection.ts";
import { FakeSandboxHosts } from "./fake-sandbox-hosts.ts";

/** A running pod `default/web` whose annotation can be edited. */
export interface HotPlugLab {
  readonly lab: EngineLab;
  readonly hosts: FakeSandboxHosts;
  /** The pod's state; what is set here overrides the usual one. */
  state: Partial<PodState>;
  /** The pod as the watch and the API have it. */
  pod(): PodState;
  /** Edits the annotation, and lets the engine see it once. */
  edit(annotation: Json): Promise<HotPlugOutcome>;
  /** Lets the engine see the pod again, and plug an interface anew. */
  again(refreshed?: string): Promise<HotPlugOutcome>;
  /** The recorded attachments. */
  attachments(): Promise<readonly RecordedAttachment[]>;
  /** `ifName network` of each recorded attachment, in order. */
  recorded(): Promise<string[]>;
  /** `interface network` of each entry of the published status, in order. */
  shown(): string[];
  /** `reason: message` of the events since the last call. */
  newEvents(): string[];
}

/** The pod, attached with hot-plug on. */
export async function hotPlugLab(
  annotation: Json,
  ...[networks, options]: Tail<Parameters<typeof attachedPod>>
): Promise<HotPlugLab> {
  const config = { hotPlug: true, ...options?.config } as const;
  const all = { a: ["bridge"], b: ["macvlan"], c: ["ipvlan"], ...networks };
  const lab = await attachedPod(textOf(annotation), all, { ...options, config });
  const hosts = new FakeSandboxHosts(lab);
  const attachments: HotPlugLab["attachments"] = async () =>
    (await lab.records.load(sandbox))?.record.attachments ?? [];
  const own: HotPlugLab = {
    lab,
    hosts,
    state: {},
    edit: (text) => {
      own.state = { ...own.state, annotations: { [networksAnnotation]: textOf(text) } };
      return own.again();
    },
    pod: () => {
      const annotations = { [networksAnnotation]: textOf(annotation) };
      return { ...runningPod, annotations, ...own.state };
    },
    again: async (refreshed) => {
      const pod = own.pod();
      const conf = async () => lab.conf;
      const read = async () => pod;
      const outcome = await lab.engine.hotPlug(pod, { hosts, conf, read, isEdit: true, refreshed });
      await Promise.all(outcome.operations.map(({ published }) => published));
      return outcome;
    },
    attachments,
    recorded: async () =>
      (await attachments()).map(({ ifName, displayName }) => `${ifName} ${displayName}`),
    shown: () =>
      lab.publisher.status("default/web").map((each) => `${each.interface} ${each.name}`),
    newEvents: () =>
      lab.events.recorded.splice(0).map(({ reason, message }) => `${reason}: ${message}`),
  };
  expect(own.shown()).toEqual(await own.recorded());
  return own;
}

type Tail<T extends readonly unknown[]> = T extends readonly [unknown, ...infer R] ? R : never;

function textOf(annotation: Json): string {
  return typeof annotation === "string" ? annotation : JSON.stringify(annotation);
}

const runningPod: PodState = {
  ...{ namespace: "default", name: "web", uid: "uid-1", annotations: {} },
  ...{ hostNetwork: false, phase: "Running", isTerminating: false },
  podIps: ["10.0.0.1"],
  networkStatus: undefined,
};
