import { TokenBucket, type TokenBucketOptions } from "#lib/concurrency/token-bucket.ts";
import { LruMap } from "#lib/lru-map.ts";

const maxAddresses = 1024;

/** A rate limit per peer address, so that one peer cannot use up the limit of others. */
export class AddressLimit {
  readonly #options: TokenBucketOptions;
  readonly #buckets = new LruMap<TokenBucket>(maxAddresses);

  constructor(options: TokenBucketOptions) {
    this.#options = options;
  }

  tryTake(address: string): boolean {
    return this.#buckets.getOrMake(address, () => new TokenBucket(this.#options)).tryTake();
  }
}
