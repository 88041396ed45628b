import { readTokenTimes } from "#kube/api/token-times.ts";
import { standalonePaths } from "#lib/files/standalone-paths.ts";
import type { Finding } from "./finding.ts";

/** A token is replaced when a fifth of its lifetime is left at the latest. */
const latePart = 0.1;

/** The age of the token that plexus-standalone uses; none where plexusd keeps no token. */
export async function tokenFindings(stateDir: string): Promise<Finding[]> {
  const times = await readTokenTimes(standalonePaths(stateDir).kubeconfig);
  if (times === undefined) return [];
  const check = "token of plexus-standalone";
  const { issuedAt, expiresAt } = times;
  const now = Date.now() / 1000;
  const age = `issued ${minutes(now - issuedAt)} ago`;
  if (expiresAt <= now) {
    const text = `${age}, expired ${minutes(now - expiresAt)} ago: plexus-standalone can attach no pod; ${step}`;
    return [{ check, verdict: "problem", text }];
  }
  const text = `${age}, expires in ${minutes(expiresAt - now)}`;
  const isLate = expiresAt - now < (expiresAt - issuedAt) * latePart;
  if (!isLate) return [{ check, verdict: "ok", text }];
  return [{ check, verdict: "warning", text: `${text}, and is not renewed: ${step}` }];
}

const step = "see the logs of plexusd on this node, which renews the token while it runs";

function minutes(seconds: number): string {
  return `${Math.floor(seconds / 60)} min`;
}
