import { asApiError } from "#kube/api/api-error.ts";
import type { ApiClient as RealApiClient } from "#kube/api/client.ts";
import type { Answer } from "#kube/testing/object-store.ts";
import type { JsonObject } from "#lib/json.ts";
import { type ApiRequest, exchange, nameOf } from "./exchange.ts";
import { LineQueue } from "./line-queue.ts";
import type { WatchStream } from "./watch-stream.ts";

/** In place of the real client (src/kube/api/client.ts): speaks to the history's API server. */
export class ApiClient
  implements Pick<RealApiClient, "server" | "json" | "write" | "lines" | "close">
{
  get server(): string {
    return "https://api.simulation";
  }

  /** @throws ApiError */
  async json(request: ApiRequest): Promise<JsonObject> {
    const { body } = await exchange<Answer>(request, (server, asked) => server.answer(asked));
    return body as JsonObject;
  }

  /** @throws ApiError */
  async write(request: ApiRequest): Promise<void> {
    await this.json(request);
  }

  /** @throws ApiError, also when nothing arrives for `idleMs` */
  async *lines(
    request: ApiRequest,
    { idleMs, onOpen }: { readonly idleMs: number; readonly onOpen?: () => void },
  ): AsyncGenerator<string, void, undefined> {
    const stream = await exchange<WatchStream>(request, (server, asked) => server.watch(asked));
    onOpen?.();
    const queue = new LineQueue(idleMs);
    const onAbort = (): void => queue.end(new Error("aborted"));
    request.signal?.addEventListener("abort", onAbort, { once: true });
    stream.open(queue);
    try {
      for (let line = await queue.next(); line !== undefined; line = await queue.next()) yield line;
    } catch (error) {
      throw asApiError(error, nameOf(request));
    } finally {
      request.signal?.removeEventListener("abort", onAbort);
      queue.close();
      stream.close();
    }
  }

  close(): void {
    // There is no pool of connections.
  }
}
