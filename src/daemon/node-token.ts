import type { Logger } from "#engine/ports/logger.ts";
import { asApiError } from "#kube/api/api-error.ts";
import type { ObjectName } from "#kube/api/paths.ts";
import { tokenClaims, tokenTimes } from "#kube/api/token-times.ts";
import { errorMessage } from "#lib/error-message.ts";

/** A token of the pod ends with the pod. This one outlasts a day on which plexusd cannot run. */
const lifetimeSeconds = 2 * 86_400;

export interface NodeTokenOptions {
  readonly podToken: () => Promise<string>;
  readonly request: (account: ObjectName, seconds: number) => Promise<string>;
  /** Whether the API server rejects a token: it ends with the Node, also if that is registered anew. */
  readonly isRejected: (token: string) => Promise<boolean>;
  readonly logger: Logger;
}

/** The token that plexus-standalone uses where plexusd serves no calls: bound to the Node. */
export class NodeToken {
  readonly #options: NodeTokenOptions;
  #held: string | undefined;
  #wasRefused = false;

  constructor(options: NodeTokenOptions) {
    this.#options = options;
  }

  /**
   * A token with at least half of its lifetime left. The pod's, if the API server never grants one
   * (Kubernetes before 1.31, or without the permission). @throws Error when it grants none now
   */
  async get(): Promise<string> {
    const { podToken, request, isRejected, logger } = this.#options;
    if (this.#held !== undefined && (await isRejected(this.#held))) this.#held = undefined;
    if (this.#held !== undefined && this.#partLeft(this.#held) > 0.5) return this.#held;
    const own = await podToken();
    try {
      this.#held = await request(accountOf(own), lifetimeSeconds);
      return this.#held;
    } catch (error) {
      const isHeldValid = this.#held !== undefined && this.#partLeft(this.#held) > 0;
      if (isHeldValid || asApiError(error).transient) throw error;
      if (!this.#wasRefused) logger.warn({ error: errorMessage(error) }, refused);
      this.#wasRefused = true;
      return own;
    }
  }

  /** 0 without times. */
  #partLeft(token: string): number {
    const times = tokenTimes(token);
    if (times === undefined) return 0;
    const now = Date.now() / 1000;
    return (times.expiresAt - now) / (times.expiresAt - times.issuedAt);
  }
}

const refused =
  "the API server grants no token that is bound to the Node: plexus-standalone gets the token of plexusd's pod, and can attach no pod after plexusd's pod is deleted; a token for the Node needs Kubernetes 1.31 and deploy/components/thin";

/** @throws Error if the token is not a service account's */
function accountOf(token: string): ObjectName {
  const { sub } = tokenClaims(token);
  const parts = typeof sub === "string" ? sub.split(":") : [];
  const [, , namespace, name] = parts;
  if (parts[1] === "serviceaccount" && namespace !== undefined && name !== undefined) {
    return { namespace, name };
  }
  throw new Error("plexusd's token is not a service account's");
}
