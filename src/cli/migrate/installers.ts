import { type Json, type JsonObject, objectOf, objectsOf } from "#lib/json.ts";
import type { MigrationNote } from "./multus-table.ts";

/** What installs Multus by an object: whether that object does, and how to end it. */
interface Installer {
  readonly installsMultus: (object: JsonObject) => boolean;
  readonly remedy: string;
}

const helmChartConfig: Installer = {
  installsMultus: ({ metadata }) => objectOf(metadata).name === "rke2-multus",
  remedy:
    "run `kubectl -n kube-system edit helmchartconfig rke2-multus`, and set `failurePolicy: abort`, and `manifests: {daemonSet: false}` in `valuesContent`",
};

const installers: ReadonlyMap<unknown, Installer> = new Map([
  [
    "NicClusterPolicy",
    {
      installsMultus: ({ spec }) => "multus" in objectOf(objectOf(spec).secondaryNetwork),
      remedy: patch("nicclusterpolicy nic-cluster-policy", { secondaryNetwork: { multus: null } }),
    },
  ],
  [
    "NetworkAddonsConfig",
    {
      installsMultus: ({ spec }) => "multus" in objectOf(spec),
      remedy: patch("networkaddonsconfig cluster", { multus: null, multusDynamicNetworks: null }),
    },
  ],
  ["HelmChart", helmChartConfig],
  ["HelmChartConfig", helmChartConfig],
]);

function patch(object: string, spec: Json): string {
  return `run \`kubectl patch ${object} --type merge -p '${JSON.stringify({ spec })}'\``;
}

/** A note for an operator's object that has Multus installed. */
export function installerNotes(object: JsonObject): MigrationNote[] {
  const installer = installers.get(object.kind);
  if (installer?.installsMultus(object) !== true) return [];
  return [note(`${object.kind} ${objectOf(object.metadata).name}`, installer.remedy)];
}

/** Notes for what restores a DaemonSet of Multus: operators' objects, and its Helm release. */
export function ownerNotes({ metadata }: JsonObject): MigrationNote[] {
  const { ownerReferences, annotations } = objectOf(metadata);
  const owners = objectsOf(ownerReferences).map(({ kind, name }) =>
    note(`${kind} ${name}`, installers.get(kind)?.remedy ?? "remove Multus from it"),
  );
  const { "meta.helm.sh/release-name": release } = objectOf(annotations);
  if (release === undefined) return owners;
  const isRke2 = release === "rke2-multus";
  const remedy = isRke2 ? helmChartConfig.remedy : "switch Multus off in its values";
  return [...owners, note(`Helm release ${release}`, remedy)];
}

function note(source: string, remedy: string): MigrationNote {
  return {
    ...{ source, key: "DaemonSet" },
    note: `restores a DaemonSet of Multus that you delete: when all nodes have moved, ${remedy} (docs/user/operators.md)`,
  };
}
