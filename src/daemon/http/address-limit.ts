import { TokenBucket, type TokenBucketOptions } from "#lib/concurrency/token-bucket.ts";
import { LruMap } from "#lib/lru-map.ts";

/** Addresses that are remembered, the last ones: whoever has more than that has the limits of several peers. */
const maxAddresses = 1024;

/** A rate limit for each address that connections come from, so that one peer cannot use up what others need. */
export class AddressLimit {
  readonly #options: TokenBucketOptions;
  readonly #buckets = new LruMap<TokenBucket>(maxAddresses);

  constructor(options: TokenBucketOptions) {
    this.#options = options;
  }

  /** Whether the address may do it once more now. */
  tryTake(address: string): boolean {
    return this.#buckets.getOrMake(address, () => new TokenBucket(this.#options)).tryTake();
  }
}
