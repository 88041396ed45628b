import { createHash } from "node:crypto";
import type { AccessReview, AccessVerdict } from "#kube/access-review.ts";
import { TokenBucket } from "#lib/concurrency/token-bucket.ts";
import { LruMap } from "#lib/lru-map.ts";
import { AddressLimit } from "./address-limit.ts";

/** What a request for the metrics gets, by its `authorization` header. */
export type MetricsAccess = AccessVerdict | "too-many" | "unknown";

/** Options of {@link reviewedAccess}. */
interface ReviewedAccessOptions {
  readonly review: AccessReview;
  /** Milliseconds on a clock that never goes back. @default performance.now */
  readonly now?: () => number;
}

/** A verdict is asked for again after this long: so long a right that was taken away still holds. */
const keptMs = 60_000;

/** Tokens whose verdict is kept, of readers and of strangers: far more than there are Prometheus servers. */
const maxKept = 64;

/** Reviews that strangers' tokens may cause: the API server is not theirs to load. */
const reviews = { burst: 10, tokensPerSecond: 1 };

/** The part of them that one address may use up, so that a new token of Prometheus is still asked about. */
const reviewsOfAddress = { burst: 3, tokensPerSecond: 0.2 };

/** A service account's token has some 1 KiB. */
const maxTokenLength = 8192;

interface Kept {
  readonly verdict: Promise<AccessVerdict>;
  until: number;
}

/** Decides about a request by its `authorization` header and the address that it comes from. */
export type MetricsGate = (
  authorization: string | undefined,
  address: string,
) => Promise<MetricsAccess>;

/**
 * Decides who may read the metrics: the bearer of a token that the API server lets `get /metrics`.
 * Verdicts are kept for a minute, by the token's hash; those of readers apart, so that strangers, however
 * many tokens they try, neither displace them nor keep them from being renewed. Never rejects: what cannot be
 * asked is `unknown`.
 */
export function reviewedAccess(options: ReviewedAccessOptions): MetricsGate {
  const now = options.now ?? ((): number => performance.now());
  const readers = new LruMap<Kept>(maxKept);
  const strangers = new LruMap<Kept>(maxKept);
  const all = new TokenBucket({ ...reviews, now });
  const perAddress = new AddressLimit({ ...reviewsOfAddress, now });
  const mayAsk = (address: string): boolean => perAddress.tryTake(address) && all.tryTake();
  return async (authorization, address) => {
    const token = bearerToken(authorization);
    if (token === undefined) return "unauthenticated";
    const key = createHash("sha256").update(token).digest("base64");
    const reader = readers.peek(key);
    const known = reader ?? strangers.peek(key);
    if (known !== undefined && known.until > now()) return settled(known);
    if (reader === undefined && !mayAsk(address)) return "too-many";
    const asked = { verdict: options.review(token, "/metrics"), until: now() + keptMs };
    (reader === undefined ? strangers : readers).set(key, asked);
    const verdict = await settled(asked);
    if (verdict === "allowed") readers.set(key, asked);
    else if (verdict !== "unknown") readers.delete(key);
    return verdict;
  };
}

/** The verdict; one that could not be had is asked for again the next time. */
async function settled(kept: Kept): Promise<AccessVerdict | "unknown"> {
  try {
    return await kept.verdict;
  } catch {
    kept.until = 0;
    return "unknown";
  }
}

function bearerToken(authorization: string | undefined): string | undefined {
  return /^Bearer ([\x21-\x7e]+)$/i.exec((authorization ?? "").slice(0, maxTokenLength))?.[1];
}
