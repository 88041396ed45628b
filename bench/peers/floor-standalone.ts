import { openSync, readFileSync } from "node:fs";
import type { DelegateCall } from "#cni/runtime/delegate.ts";
import { ShimSession } from "#host/shim-session.ts";
import { apiPaths } from "#kube/api/paths.ts";
import { readPlainKubeconfig } from "#kube/api/plain-kubeconfig.ts";
import { FetchClient } from "#kube/once/fetch-client.ts";
import type { JsonObject } from "#lib/json.ts";
import { FrameReader, wholeFrames } from "#protocol/frame.ts";
import { decodeExec, encodeExec, type RequestMessage } from "#protocol/messages.ts";
import { DescriptorStream } from "../../src/standalone/descriptor-stream.ts";
import { Duties, podIn, recordPath, timeoutMs } from "./duties.ts";

/** A network configuration list of the benchmark. */
interface Network extends JsonObject {
  readonly cniVersion: string;
  readonly name: string;
  readonly plugins: (JsonObject & { readonly type: string })[];
}

/** The configuration that the shim is called with. */
interface Conf {
  readonly kubeconfig: string;
  readonly delegates: readonly Network[];
}

/** Where it keeps its records. */
const dir = process.env.PLEXUS_STATE_DIR as string;

/**
 * What plexus-standalone cannot leave out: for one call it reads the pod and its definitions, executes their plugins,
 * and does the duties of every engine (duties.ts). It checks nothing, and knows the benchmark's configurations only.
 * No program with this runtime and client can serve such a call in less time.
 */
async function main(): Promise<void> {
  const session = new ShimSession(DescriptorStream.connect(3));
  const request = await session.request();
  const { env } = request;
  const conf = JSON.parse(request.stdin) as Conf;
  const client = new FetchClient(() => readPlainKubeconfig(conf.kubeconfig));
  const isAdd = env.CNI_COMMAND === "ADD";
  const duties = new Duties({ dir, dirFd: openSync(dir, "r"), client });
  const calls = isAdd ? addCalls(await networks(client, conf, env), env) : recordedCalls(env);
  duties.begin(request, calls.map(asDel).toReversed());
  for (const call of calls) {
    const { code, stdout } = await session.exec(call);
    if (code !== 0) throw new Error("a plugin failed");
    duties.keep(stdout);
  }
  await Promise.all([duties.finish(), duties.publish()]);
  const stdout = isAdd ? JSON.stringify({ cniVersion: "1.0.0", interfaces: [] }) : "";
  await session.done({ exitCode: 0, stdout, stderr: "" });
  await duties.emit();
  process.exit();
}

async function networks(
  client: FetchClient,
  { delegates }: Conf,
  env: RequestMessage["env"],
): Promise<Network[]> {
  const pod = podIn(env);
  const { metadata } = (await client.json({ path: apiPaths.pod(pod), timeoutMs })) as {
    metadata: { annotations: Record<string, string> };
  };
  const names = metadata.annotations["k8s.v1.cni.cncf.io/networks"]?.split(",") ?? [];
  const definitions = names.map(async (name) => {
    const path = apiPaths.nad({ namespace: pod.namespace, name });
    const { spec } = (await client.json({ path, timeoutMs })) as { spec: { config: string } };
    return JSON.parse(spec.config) as Network;
  });
  return [...delegates, ...(await Promise.all(definitions))];
}

function addCalls(all: readonly Network[], env: RequestMessage["env"]): DelegateCall[] {
  const variables = Object.entries(env).filter(([name]) => name.startsWith("CNI_"));
  return all.flatMap(({ cniVersion, name, plugins }, nth) =>
    plugins.map((plugin) => ({
      type: plugin.type,
      searchPath: (env.CNI_PATH ?? "").split(":"),
      timeoutMs: 60_000,
      stdin: JSON.stringify({ cniVersion, name, ...plugin }),
      env: { ...Object.fromEntries(variables), CNI_IFNAME: nth === 0 ? "eth0" : `net${nth}` },
    })),
  );
}

function asDel(call: DelegateCall): Buffer {
  return encodeExec({ group: 0, ...call, env: { ...call.env, CNI_COMMAND: "DEL" } });
}

/** The record begins with the calls that detach the pod. */
function recordedCalls(env: RequestMessage["env"]): DelegateCall[] {
  const record = readFileSync(recordPath(dir, env));
  const end = [...wholeFrames(record)].at(-1)?.end;
  return new FrameReader().push(record.subarray(0, end ?? 0)).map(decodeExec);
}

void main();
