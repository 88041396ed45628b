import { readFileSync } from "node:fs";
import { execa } from "execa";
import { done, print } from "./print.ts";
import { DemoError, type Workplace } from "./workplace.ts";

/** A pod's sandbox, as a container runtime knows it. */
export interface Sandbox {
  readonly containerId: string;
  readonly netns: string;
  readonly pod: string;
  readonly uid: string;
}

/** The addresses of the result that Plexus gives the runtime. */
interface CniResult {
  readonly ips?: readonly { readonly address: string; readonly gateway?: string }[];
}

/** The environment of a call: the CNI variables as containerd and CRI-O set them, and where the demo's daemon is. */
function environment(at: Workplace, command: string, sandbox: Sandbox): Record<string, string> {
  return {
    CNI_COMMAND: command,
    CNI_CONTAINERID: sandbox.containerId,
    CNI_NETNS: sandbox.netns,
    CNI_IFNAME: "eth0",
    CNI_PATH: at.plugins,
    CNI_ARGS: [
      "IgnoreUnknown=1",
      "K8S_POD_NAMESPACE=demo",
      `K8S_POD_NAME=${sandbox.pod}`,
      `K8S_POD_INFRA_CONTAINER_ID=${sandbox.containerId}`,
      `K8S_POD_UID=${sandbox.uid}`,
    ].join(";"),
    PLEXUS_SOCKET: at.socket,
    PLEXUS_STATE_DIR: at.state,
  };
}

/** What a runtime writes on stdin: the plugin's own configuration with the list's name and version. */
export function confOnStdin(): string {
  const { cniVersion, name, plugins } = JSON.parse(
    readFileSync("examples/00-plexus.conflist", "utf8"),
  ) as {
    cniVersion: string;
    name: string;
    plugins: object[];
  };
  return JSON.stringify({ cniVersion, name, ...plugins[0] });
}

/** Shows a call as one could type it. */
export function printCall(at: Workplace, command: string, sandbox: Sandbox): void {
  const variables = Object.entries(environment(at, command, sandbox));
  for (const [name, value] of variables)
    print(`${name}=${value.includes(";") ? `'${value}'` : value} \\`);
  print(`${at.shim} <<< '${confOnStdin()}'`);
}

/** Calls Plexus as a runtime does. @throws DemoError with the error that it printed */
export async function callPlexus(
  at: Workplace,
  command: "ADD" | "DEL",
  sandbox: Sandbox,
): Promise<void> {
  const began = performance.now();
  const { exitCode, stdout, stderr } = await execa(at.shim, [], {
    input: confOnStdin(),
    env: { PATH: process.env.PATH ?? "", ...environment(at, command, sandbox) },
    extendEnv: false,
    reject: false,
  });
  const milliseconds = performance.now() - began;
  if (exitCode !== 0)
    throw new DemoError(`${command} of pod ${sandbox.pod} failed: ${stdout}${stderr}`);
  const { ips = [] } = stdout === "" ? {} : (JSON.parse(stdout) as CniResult);
  const told = ips.map((ip) => `, the runtime is told ${ip.address} by ${ip.gateway}`).join("");
  done(`${command} ${sandbox.pod}: exit status 0${told}`, milliseconds);
}
