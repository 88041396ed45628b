import { type Json, type JsonObject, objectOf, objectsOf } from "#lib/json.ts";
import type { MigrationNote } from "./multus-table.ts";

const ofRke2 =
  "run `kubectl -n kube-system edit helmchartconfig rke2-multus`, and set `failurePolicy: abort`, and `manifests: {daemonSet: false}` in `valuesContent`";

/** How to have what a kind of object installs no longer include Multus. */
const remedies: ReadonlyMap<unknown, (name: unknown) => string> = new Map([
  [
    "NicClusterPolicy",
    patch("nicclusterpolicy nic-cluster-policy", { secondaryNetwork: { multus: null } }),
  ],
  [
    "NetworkAddonsConfig",
    patch("networkaddonsconfig cluster", { multus: null, multusDynamicNetworks: null }),
  ],
  ["HelmChart", ofRelease],
  ["HelmChartConfig", ofRelease],
]);

function patch(object: string, spec: Json): () => string {
  return () => `run \`kubectl patch ${object} --type merge -p '${JSON.stringify({ spec })}'\``;
}

function ofRelease(name: unknown): string {
  return name === "rke2-multus" ? ofRke2 : "switch Multus off in its values";
}

/** A note for an operator's object that has Multus installed: by its name, its chart, or a key. */
export function installerNotes({ kind, metadata, spec }: JsonObject): MigrationNote[] {
  const { name } = objectOf(metadata);
  const remedy = remedies.get(kind);
  if (remedy === undefined || !/"(rke2-)?multus"/.test(JSON.stringify([name, spec]))) return [];
  return [note(`${kind} ${name}`, remedy(name))];
}

/** Notes for what restores a DaemonSet of Multus: operators' objects, and its Helm release. */
export function ownerNotes({ metadata }: JsonObject): MigrationNote[] {
  const { ownerReferences, annotations } = objectOf(metadata);
  const owners = objectsOf(ownerReferences).map(({ kind, name }) =>
    note(`${kind} ${name}`, remedies.get(kind)?.(name) ?? "remove Multus from it"),
  );
  const { "meta.helm.sh/release-name": release } = objectOf(annotations);
  if (release === undefined) return owners;
  return [...owners, note(`Helm release ${release}`, ofRelease(release))];
}

function note(source: string, remedy: string): MigrationNote {
  return {
    ...{ source, key: "DaemonSet" },
    note: `restores a DaemonSet of Multus that you delete: when all nodes have moved, ${remedy} (docs/user/operators.md)`,
  };
}
