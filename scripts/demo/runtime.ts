import { readFileSync } from "node:fs";
import { execa } from "execa";
import { cniEnvironment } from "../../e2e/support/node/cni-environment.ts";
import { shimEnvironment } from "../../e2e/support/plexusd.ts";
import { print, timed } from "./print.ts";
import type { Workplace } from "./workplace.ts";

/** A pod of the namespace `demo`; its network namespace has its name. */
export interface DemoPod {
  readonly name: string;
  readonly uid: string;
}

/** The addresses of the result that Plexus gives the runtime. */
interface CniResult {
  readonly ips?: readonly { readonly address: string; readonly gateway?: string }[];
}

/** The CNI variables of a call, and where the demo's daemon is. */
function environment(
  at: Workplace,
  command: string,
  { name, uid }: DemoPod,
): Record<string, string> {
  const sandbox = {
    containerId: `demo-${name}`,
    netns: `/run/netns/${name}`,
    pod: { namespace: "demo", name, uid },
  };
  return { ...cniEnvironment({ command, cniPath: at.plugins, sandbox }), ...shimEnvironment(at) };
}

/** The plugin's configuration on stdin, with the list's name and version. */
function confOnStdin(): string {
  const { cniVersion, name, plugins } = JSON.parse(
    readFileSync("examples/00-plexus.conflist", "utf8"),
  );
  return JSON.stringify({ cniVersion, name, ...plugins[0] });
}

/** Prints a call as a shell command. */
export function printCall(at: Workplace, command: string, pod: DemoPod): void {
  for (const [name, value] of Object.entries(environment(at, command, pod)))
    print(`${name}=${value.includes(";") ? `'${value}'` : value} \\`);
  print(`${at.shim} <<< '${confOnStdin()}'`);
}

/** Calls Plexus as a runtime does. @throws Error with Plexus's error */
export async function callPlexus(at: Workplace, command: string, pod: DemoPod): Promise<void> {
  await timed(`${command} ${pod.name}: `, () => execute(at, command, pod), outcome);
}

/** Returns what Plexus printed. */
async function execute(at: Workplace, command: string, pod: DemoPod): Promise<string> {
  const { exitCode, stdout, stderr } = await execa(at.shim, [], {
    input: confOnStdin(),
    env: { PATH: process.env.PATH ?? "", ...environment(at, command, pod) },
    extendEnv: false,
    reject: false,
  });
  if (exitCode === 0) return stdout;
  throw new Error(`${command} of pod ${pod.name} failed: ${stdout}${stderr}`);
}

function outcome(stdout: string): string {
  const { ips = [] } = stdout === "" ? {} : (JSON.parse(stdout) as CniResult);
  const addresses = ips.map((ip) => `, address ${ip.address}, gateway ${ip.gateway}`);
  return `exit status 0${addresses.join("")}`;
}
