import { fileURLToPath } from "node:url";
import { parseAllDocuments } from "yaml";

/** The checkout, with a slash at its end. */
export const root = fileURLToPath(new URL("../../../../", import.meta.url));

export interface Container {
  readonly command: readonly string[];
  readonly args?: readonly string[];
  readonly env?: readonly { readonly name: string; readonly value?: string }[];
  readonly ports?: readonly object[];
  readonly terminationMessagePolicy?: string;
  readonly startupProbe: Probe;
  readonly livenessProbe: Probe;
  readonly readinessProbe: Probe;
  readonly securityContext: object;
  readonly resources: object;
  readonly volumeMounts?: readonly Mount[];
}

interface Probe {
  readonly exec: { readonly command: readonly string[] };
}

export interface Mount {
  readonly name: string;
  readonly mountPath: string;
  readonly readOnly?: boolean;
}

export interface PodSpec {
  readonly hostNetwork: boolean;
  readonly serviceAccountName?: string;
  readonly automountServiceAccountToken?: boolean;
  readonly hostPID?: boolean;
  readonly hostIPC?: boolean;
  readonly priorityClassName: string;
  readonly tolerations: readonly object[];
  readonly affinity: object;
  readonly initContainers: readonly [Container];
  readonly containers: readonly [Container];
  readonly volumes: readonly {
    readonly name: string;
    readonly hostPath?: { readonly path: string };
    readonly projected?: {
      readonly sources: readonly {
        readonly serviceAccountToken?: object;
        readonly configMap?: object;
      }[];
    };
  }[];
}

/** The parts of Kubernetes objects that the tests read, whatever the kind. */
export interface Manifest {
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly data: Readonly<Record<string, string>>;
  readonly rules: readonly object[];
  readonly subjects: readonly object[];
  readonly spec: {
    readonly selector: { readonly matchLabels: Readonly<Record<string, string>> };
    readonly updateStrategy: object;
    readonly template: {
      readonly metadata: Readonly<Record<"labels" | "annotations", Record<string, string>>>;
      readonly spec: PodSpec;
    };
    readonly matchConditions: readonly [{ readonly expression: string }];
    readonly validations: readonly object[];
    readonly policyName: string;
    readonly names: { readonly shortNames: readonly string[] };
    readonly versions: readonly [{ readonly schema: { readonly openAPIV3Schema: object } }];
  };
}

/** The objects of a YAML text. @throws Error of the first document that does not parse */
export function loadManifests(text: string): Manifest[] {
  return parseAllDocuments(text, { merge: true }).map((document) => {
    for (const error of document.errors) throw error;
    return document.toJS() as Manifest;
  });
}

/** The first object of a kind. @throws Error when there is none */
export function byKind(kind: string, among: readonly Manifest[]): Manifest {
  const found = among.find((each) => each.kind === kind);
  if (found === undefined) throw new Error(`there is no ${kind}`);
  return found;
}

export function hostPathOf(spec: PodSpec, name: string): string | undefined {
  return spec.volumes.find((volume) => volume.name === name)?.hostPath?.path;
}

export function mountOf(container: Container, name: string): Mount | undefined {
  return container.volumeMounts?.find((mount) => mount.name === name);
}
