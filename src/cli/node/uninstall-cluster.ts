import { command, ExitCode } from "#cli/command.ts";
import { textFlag, wholeSeconds } from "#cli/flags.ts";
import { asApiError } from "#kube/api/api-error.ts";
import { ApiClient } from "#kube/api/client.ts";
import { inClusterCredentials } from "#kube/api/in-cluster.ts";
import { apiPaths } from "#kube/api/paths.ts";
import { pause } from "#lib/concurrency/deadline.ts";
import { type Json, type JsonObject, objectOf, objectsOf } from "#lib/json.ts";

const pollMs = 1000;
const timeoutMs = 10_000;
/**
 * Of the time. kube-controller-manager makes about 20 pods a second. To uninstall, it deletes the pods
 * of plexusd and of the checks first.
 */
const shareOfChecks = 1 / 3;
/** A complete pod may have more than 15 KB, and a response may have 16 MiB. */
const maxPods = 250;
const podsQuery = {
  labelSelector: "app.kubernetes.io/name=plexus,app.kubernetes.io/component=uninstall",
  // Its init container has not succeeded.
  fieldSelector: "status.phase=Pending",
  limit: maxPods,
};
const checkFlag = "/spec/template/spec/initContainers/0/command/3";

/** The namespace of the DaemonSets, and the client for it. */
interface Place {
  readonly api: ApiClient;
  readonly namespace: string;
}

/** `plexusctl uninstall-cluster`: what deploy/uninstall and the chart's pre-delete hook run once. */
export const uninstallClusterCommand = command({
  name: "uninstall-cluster",
  summary: "hand all nodes back: what deploy/uninstall and the chart's pre-delete hook run",
  description: `Expects the DaemonSet plexus-uninstall, whose pods check their nodes. If all nodes can be handed
back, deletes the DaemonSet plexus and lets the pods of plexus-uninstall uninstall. Otherwise changes
nothing. Where they uninstall already, as with the chart's value uninstall, only waits for them.`,
  flags: {
    namespace: textFlag("NAMESPACE", "of both DaemonSets", "kube-system"),
    host: textFlag("HOST", "of the API server; with the pod's service account"),
    port: textFlag("PORT", "of the API server", "443"),
    seconds: textFlag("N", "how long to wait; 0.3 for a node are needed", "270"),
  },
  failsWhen: "a node cannot be handed back, or does not answer in time; stderr has the reasons",
  async run({ flags }, output) {
    const { namespace, host, port } = flags;
    const limitMs = 1000 * wholeSeconds("--seconds", flags.seconds);
    const api = new ApiClient(inClusterCredentials({ host, port }));
    try {
      const problems = await handNodesBack({ api, namespace }, limitMs);
      for (const line of problems) output.err(line);
      return problems.length === 0 ? ExitCode.Done : ExitCode.Failed;
    } finally {
      api.close();
    }
  },
});

/** Hands all nodes back. Returns why that was not possible. @throws ApiError @internal */
export async function handNodesBack(place: Place, limitMs: number): Promise<readonly string[]> {
  const startedAt = performance.now();
  const endsAt = startedAt + limitMs;
  const isCheck = await onlyChecks(place);
  const problems = await problemsOf(place, {
    endsAt: startedAt + limitMs * (isCheck ? shareOfChecks : 1),
  });
  if (problems.length > 0) {
    return [...problems, "Plexus is not uninstalled, and nothing was changed."];
  }
  if (!isCheck) return [];
  // An uninstaller that starts while plexusd runs fails, and is restarted only after ten seconds.
  while (!(await deleteDaemon(place)) && performance.now() < endsAt) await pause(pollMs);
  const body = [
    { op: "test", path: checkFlag, value: "--check" },
    { op: "remove", path: checkFlag },
  ];
  const contentType = "application/json-patch+json";
  await place.api.json({ ...uninstallerOf(place), method: "PATCH", contentType, body });
  const left = await problemsOf(place, { endsAt, isPatient: true });
  if (left.length === 0) return [];
  return [...left, "plexusd is deleted, but these nodes are not handed back: uninstall again."];
}

/** Whether the uninstallers only check their nodes. With the chart's `uninstall: true`, they hand them back. @throws ApiError */
async function onlyChecks(place: Place): Promise<boolean> {
  const { spec } = fieldsOf(await place.api.json(uninstallerOf(place)));
  const { initContainers } = objectOf(objectOf(spec.template).spec);
  const { command: words } = objectOf(objectsOf(initContainers)[0]);
  return Array.isArray(words) && words.includes("--check");
}

function uninstallerOf({ namespace }: Place): { path: string; timeoutMs: number } {
  return { path: apiPaths.daemonSet({ namespace, name: "plexus-uninstall" }), timeoutMs };
}

/** Deletes plexusd's DaemonSet. Returns whether it is gone, with all its pods. @throws ApiError */
async function deleteDaemon({ api, namespace }: Place): Promise<boolean> {
  const path = apiPaths.daemonSet({ namespace, name: "plexus" });
  const query = { propagationPolicy: "Foreground" };
  const deleted = api.json({ method: "DELETE", path, query, timeoutMs });
  return deleted.then(
    () => false,
    (error) => {
      if (!asApiError(error).isNotFound) throw error;
      return true;
    },
  );
}

interface Limit {
  /** By `performance.now()`. */
  readonly endsAt: number;
  /** Whether uninstallers that have refused may yet succeed. @default false */
  readonly isPatient?: boolean;
}

/**
 * Waits until all uninstallers have succeeded, by the rule of `kubectl rollout status`, or the others
 * have failed. Returns who is not done, and why: one line each. @throws ApiError
 */
async function problemsOf(place: Place, { endsAt, isPatient = false }: Limit): Promise<string[]> {
  for (;;) {
    const { metadata, status } = fieldsOf(await place.api.json(uninstallerOf(place)));
    const { desiredNumberScheduled, numberReady, updatedNumberScheduled = 0 } = status;
    const isCurrent = status.observedGeneration === metadata.generation;
    const done = Math.min(Number(numberReady), Number(updatedNumberScheduled));
    const open = Number(desiredNumberScheduled) - done;
    if (isCurrent && open === 0) return [];
    const pods = await waitingPods(place, metadata.uid);
    const isOver = performance.now() > endsAt;
    const failed = pods.filter(({ failure }) => failure !== undefined).length;
    const isRefused = isCurrent && failed > 0 && failed >= Math.min(open, maxPods);
    if (isOver || (isRefused && !isPatient)) {
      const noAnswer = "no answer of the uninstaller in time";
      const problems = pods.map(({ node, failure = noAnswer }) => `${node}: ${failure}`);
      const others = open - pods.length;
      if (others > 0) problems.push(`other nodes (${others}): ${noAnswer}`);
      return problems.length > 0 ? problems : [`kube-controller-manager: ${noAnswer}`];
    }
    await pause(pollMs);
  }
}

/** The first uninstallers that have not succeeded, with what they printed when they failed last. */
async function waitingPods(
  { api, namespace }: Place,
  uid: Json | undefined,
): Promise<{ readonly node: string; readonly failure: string | undefined }[]> {
  const path = apiPaths.podsOf(namespace);
  const { items } = await api.json({ path, query: podsQuery, timeoutMs });
  const pods = objectsOf(items).map(fieldsOf);
  // Those of an earlier attempt may not be gone yet.
  const own = pods.filter(({ metadata }) =>
    objectsOf(metadata.ownerReferences).some((owner) => owner.uid === uid),
  );
  return own.map(({ spec, status }) => {
    const { state, lastState } = objectOf(objectsOf(status.initContainerStatuses)[0]);
    const ends = [state, lastState].map((each) => objectOf(objectOf(each).terminated));
    const failure = ends.find(({ exitCode }) => exitCode !== undefined && exitCode !== 0)?.message;
    return {
      node: String(spec.nodeName ?? "a node"),
      failure: typeof failure === "string" ? failure.trim().replaceAll("\n", "; ") : undefined,
    };
  });
}

function fieldsOf(object: Json): Record<"metadata" | "spec" | "status", JsonObject> {
  const { metadata, spec, status } = objectOf(object);
  return { metadata: objectOf(metadata), spec: objectOf(spec), status: objectOf(status) };
}
