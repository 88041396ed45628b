import {
  isJsonObject,
  type Json,
  type JsonObject,
  objectOf,
  objectsOf,
  quoteValue,
} from "#lib/json.ts";
import type { MigrationNote } from "./multus-table.ts";

/** How to tell that an operator's object has Multus installed, and how to end that. */
interface Installer {
  hasMultus(object: JsonObject): boolean;
  remedy(name: unknown): string;
}

const ofRke2 =
  "run `kubectl -n kube-system edit helmchartconfig rke2-multus`, and set `failurePolicy: abort`, and `manifests: {daemonSet: false}` in `valuesContent`";

const ofCozystack =
  'leave its package installed, and run `kubectl -n cozy-multus patch daemonset cozy-multus -p \'{"spec":{"template":{"spec":{"nodeSelector":{"example.com/meta-cni":"multus"}}}}}\'`';

const helmChart: Installer = {
  hasMultus: ({ metadata, spec }) =>
    [objectOf(metadata).name, objectOf(spec).chart].some(
      (each) => each === "multus" || each === "rke2-multus",
    ),
  remedy: ofRelease,
};

const installers: ReadonlyMap<unknown, Installer> = new Map([
  [
    "NicClusterPolicy",
    {
      hasMultus: ({ spec }) => isJsonObject(objectOf(objectOf(spec).secondaryNetwork).multus),
      remedy: patch("nicclusterpolicy nic-cluster-policy", { secondaryNetwork: { multus: null } }),
    },
  ],
  [
    "NetworkAddonsConfig",
    {
      hasMultus: (object) =>
        isJsonObject(objectOf(object.spec).multus) || installsDynamicNetworks(object),
      remedy: patch("networkaddonsconfig cluster", { multus: null, multusDynamicNetworks: null }),
    },
  ],
  ["HelmChart", helmChart],
  ["HelmChartConfig", helmChart],
]);

function patch(object: string, spec: Json): () => string {
  return () => `run \`kubectl patch ${object} --type merge -p '${JSON.stringify({ spec })}'\``;
}

function ofRelease(name: unknown): string {
  return name === "rke2-multus" ? ofRke2 : "switch Multus off in its values";
}

/** Whether an operator's object has multus-dynamic-networks-controller installed. */
export function installsDynamicNetworks({ kind, spec }: JsonObject): boolean {
  return kind === "NetworkAddonsConfig" && isJsonObject(objectOf(spec).multusDynamicNetworks);
}

/** A note for an operator's object that has Multus installed. */
export function installerNotes(object: JsonObject): MigrationNote[] {
  const { kind, metadata } = object;
  const { name } = objectOf(metadata);
  const installer = installers.get(kind);
  return installer?.hasMultus(object) === true ? [note([kind, name], installer.remedy(name))] : [];
}

/** Labels and annotations that Flux and Argo CD set. Each names the object that has this one applied. */
const gitOpsMarks = new Map([
  ["helm.toolkit.fluxcd.io/name", "HelmRelease"],
  ["kustomize.toolkit.fluxcd.io/name", "Kustomization"],
  ["argocd.argoproj.io/tracking-id", "Application"],
]);

/** Notes for what restores a DaemonSet of Multus: the objects of operators, Flux and Argo CD, and its Helm release. */
export function ownerNotes({ metadata }: JsonObject): MigrationNote[] {
  const { ownerReferences, labels, annotations, namespace } = objectOf(metadata);
  const marks = Object.entries({ ...objectOf(labels), ...objectOf(annotations) }).map(
    // Argo CD's value is `APPLICATION:GROUP/KIND:NAMESPACE/NAME`.
    ([mark, value]) => ({
      kind: gitOpsMarks.get(mark),
      name: typeof value === "string" ? value.split(":", 1)[0] : value,
    }),
  );
  const owners = [...objectsOf(ownerReferences), ...marks.filter(({ kind }) => kind)].map(
    ({ kind, name }) =>
      note([kind, name], installers.get(kind)?.remedy(name) ?? "remove Multus from it"),
  );
  const { "meta.helm.sh/release-name": release } = objectOf(annotations);
  if (release === undefined) return owners;
  const remedy = namespace === "cozy-multus" ? ofCozystack : ofRelease(release);
  return [...owners, note(["Helm release", release], remedy)];
}

function note(source: readonly unknown[], remedy: string): MigrationNote {
  const words = source.map((each) => (typeof each === "string" ? each : quoteValue(each)));
  return {
    ...{ source: words.join(" "), key: "DaemonSet" },
    note: `restores a DaemonSet of Multus that you delete: when all nodes have moved, ${remedy} (docs/user/operators.md)`,
  };
}
