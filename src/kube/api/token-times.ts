import { tryParseJson } from "#cni/document.ts";
import { textIfUsable } from "#lib/files/read-file.ts";
import { standalonePaths } from "#lib/files/standalone-paths.ts";
import { type JsonObject, objectOf, objectsOf } from "#lib/json.ts";

/** When a service account's token was issued and when it expires, in seconds of Unix time. */
export interface TokenTimes {
  readonly issuedAt: number;
  readonly expiresAt: number;
}

/** The times in a token's claims; undefined if it is no JSON Web Token or lacks them. */
export function tokenTimes(token: string): TokenTimes | undefined {
  const { iat, exp } = tokenClaims(token);
  if (typeof iat !== "number" || typeof exp !== "number") return undefined;
  return { issuedAt: iat, expiresAt: exp };
}

/** A token's claims, without a check of its signature; empty if it is no JSON Web Token. */
export function tokenClaims(token: string): JsonObject {
  const claims = Buffer.from(token.split(".")[1] ?? "", "base64url").toString();
  return objectOf(tryParseJson(claims));
}

/** The times of the token in the kubeconfig that plexusd keeps; undefined without one. */
export async function readTokenTimes(kubeconfig: string): Promise<TokenTimes | undefined> {
  const conf = tryParseJson(textIfUsable(kubeconfig, "none") ?? "");
  const [entry] = objectsOf(objectOf(conf).users);
  const { token } = objectOf(entry?.user);
  return typeof token === "string" ? tokenTimes(token) : undefined;
}

/** What the metrics say of that token of a state directory, in seconds. */
export function tokenGauges(stateDir: string) {
  const { kubeconfig } = standalonePaths(stateDir);
  const gauge = (seconds: (times: TokenTimes, now: number) => number) => async () => {
    const times = await readTokenTimes(kubeconfig);
    return times && seconds(times, Date.now() / 1000);
  };
  return {
    plexus_standalone_token_age_seconds: gauge(({ issuedAt }, now) => now - issuedAt),
    plexus_standalone_token_remaining_seconds: gauge(({ expiresAt }, now) => expiresAt - now),
  };
}
