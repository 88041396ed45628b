import { hash } from "node:crypto";
import type { AccessReview, AccessVerdict } from "#kube/access-review.ts";
import { TokenBucket, type TokenBucketOptions } from "#lib/concurrency/token-bucket.ts";
import { LruMap } from "#lib/lru-map.ts";

export type MetricsAccess = AccessVerdict | "too-many" | "unknown";

/** How long a permission is cached, as by the kubelet, and thus stays effective when it is revoked. */
const allowedMs = 300_000;
/** How long another verdict is cached. */
const refusedMs = 60_000;

/** Tokens with a cached verdict, of readers and of others each; more than Prometheus servers. */
const maxKept = 64;

/** Limits the load of unknown tokens on the API server. */
const reviews = { burst: 10, tokensPerSecond: 1 };

/** The share of one address, so that a new token of Prometheus is still reviewed. */
const reviewsOfAddress = { burst: 3, tokensPerSecond: 0.2 };

const maxAddresses = 1024;

/** A service account's token has about 1 KiB. */
const maxTokenLength = 8192;

interface Kept {
  readonly verdict: Promise<AccessVerdict>;
  until: number;
}

/**
 * Decides about a request by its `authorization` header and peer address.
 * Lets bearers read the metrics if the API server authorizes their token to `get /metrics`.
 * Caches verdicts by the token's hash. Known readers have a separate cache and no rate
 * limit, so unknown tokens cannot displace them. Never rejects: without an answer it is `unknown`.
 */
export function reviewedAccess(
  review: AccessReview,
): (authorization: string | undefined, address: string) => Promise<MetricsAccess> {
  const readers = new LruMap<Kept>(maxKept);
  const strangers = new LruMap<Kept>(maxKept);
  const all = new TokenBucket(reviews);
  const perAddress = limitPerAddress(reviewsOfAddress);
  const mayAsk = (address: string): boolean => perAddress(address) && all.tryTake();
  return async (authorization, address) => {
    const token = bearerToken(authorization);
    if (token === undefined) return "unauthenticated";
    const key = hash("sha256", token, "base64");
    const reader = readers.peek(key);
    const known = reader ?? strangers.peek(key);
    if (known !== undefined && known.until > performance.now()) return settled(known);
    if (reader === undefined && !mayAsk(address)) return "too-many";
    const asked = { verdict: review(token, "/metrics"), until: performance.now() + refusedMs };
    (reader === undefined ? strangers : readers).set(key, asked);
    const verdict = await settled(asked);
    if (verdict === "allowed") readers.set(key, { ...asked, until: performance.now() + allowedMs });
    else if (verdict !== "unknown") readers.delete(key);
    return verdict;
  };
}

/** A rate limit per peer address, so that one peer cannot use up the limit of others. */
export function limitPerAddress(options: TokenBucketOptions): (address: string) => boolean {
  const buckets = new LruMap<TokenBucket>(maxAddresses);
  return (address) => buckets.getOrMake(address, () => new TokenBucket(options)).tryTake();
}

/** The verdict; a failed review is repeated at the next request. */
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
