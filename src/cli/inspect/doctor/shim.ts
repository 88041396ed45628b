import { join } from "node:path";
import type { NodeStatus } from "#daemon/admin/node-status.ts";
import { errorMessage } from "#lib/error-message.ts";
import { executableNames } from "#lib/files/default-paths.ts";
import { runProgram } from "#lib/run-program.ts";
import type { Finding } from "./finding.ts";

const timeoutMs = 5000;

/** Whether the shim that the container runtime executes is there, and of plexusd's release. */
export async function shimFinding({ version, commit, dirs }: NodeStatus): Promise<Finding> {
  const path = join(dirs.shimDir, executableNames.shim);
  const check = "shim";
  try {
    const { stdout } = await runProgram([path, "--version"], { timeoutMs });
    const release = stdout.trim();
    const text = `${path}: ${release}`;
    const isSame = release === `${executableNames.shim} ${version} (${commit})`;
    if (isSame) return { check, verdict: "ok", text };
    const step =
      "an upgrade is in progress, or plexusd's pod has not installed its shim: restart that pod";
    const differs = `${text} is of another release than plexusd: ${step}`;
    return { check, verdict: "warning", text: differs };
  } catch (error) {
    const step =
      "delete plexusd's pod on this node: its container install puts the shim there again";
    const text = `${path} cannot be executed: ${errorMessage(error)}; ${step}`;
    return { check, verdict: "problem", text };
  }
}
