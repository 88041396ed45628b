import { createHash } from "node:crypto";
import type { AccessReview, AccessVerdict } from "#kube/access-review.ts";
import { TokenBucket } from "#lib/concurrency/token-bucket.ts";
import { LruMap } from "#lib/lru-map.ts";

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

/** Tokens whose verdict is kept: far more than there are Prometheus servers. */
const maxKept = 64;

/** Reviews that strangers' tokens may cause: the API server is not theirs to load. */
const reviews = { burst: 10, tokensPerSecond: 1 };

/** A service account's token has some 1 KiB. */
const maxTokenLength = 8192;

interface Kept {
  readonly verdict: Promise<AccessVerdict>;
  readonly until: number;
}

/**
 * Decides who may read the metrics: the bearer of a token that the API server lets `get /metrics`.
 * Verdicts are kept for a minute, by the token's hash. Never rejects: what cannot be asked is `unknown`.
 */
export function reviewedAccess(
  options: ReviewedAccessOptions,
): (authorization: string | undefined) => Promise<MetricsAccess> {
  const now = options.now ?? ((): number => performance.now());
  const kept = new LruMap<{ entry?: Kept }>(maxKept);
  const bucket = new TokenBucket({ ...reviews, now });
  return async (authorization) => {
    const token = /^Bearer ([\x21-\x7e]+)$/i.exec(
      (authorization ?? "").slice(0, maxTokenLength),
    )?.[1];
    if (token === undefined) return "unauthenticated";
    const slot = kept.getOrMake(createHash("sha256").update(token).digest("base64"), () => ({}));
    if (slot.entry === undefined || slot.entry.until <= now()) {
      if (!bucket.tryTake()) return "too-many";
      slot.entry = { verdict: options.review(token, "/metrics"), until: now() + keptMs };
    }
    const { entry } = slot;
    try {
      return await entry.verdict;
    } catch {
      if (slot.entry === entry) delete slot.entry;
      return "unknown";
    }
  };
}
