import type { JsonObject } from "#lib/json.ts";
import type { FieldReader } from "#lib/parsing/field-reader.ts";
import { readFields } from "#lib/parsing/field-reader.ts";

/** The names of a pod's containers, in the order of its specification. */
export interface ContainerNames {
  /** Init containers with `restartPolicy: Always`. The kubelet lists them first. */
  readonly sidecars: readonly string[];
  readonly main: readonly string[];
}

/** Reads the names from a Pod of the API. @throws DocumentError */
export function containerNames(pod: JsonObject): ContainerNames {
  return readFields(pod, { subject: "Pod" }, (fields) => {
    const spec = fields.object("spec");
    const init = spec?.objects("initContainers") ?? [];
    const main = spec?.objects("containers") ?? [];
    const sidecars = init.filter((container) => container.string("restartPolicy") === "Always");
    return { sidecars: sidecars.map(nameOf), main: main.map(nameOf) };
  });
}

function nameOf(container: FieldReader): string {
  return container.required("name");
}
