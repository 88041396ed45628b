import type { ServerResponse } from "node:http";
import type { JsonObject } from "#lib/json.ts";
import type { Collection } from "./collection.ts";
import { failure, type StoreRequest, tooOld } from "./object-store.ts";
import { isSelected } from "./selectors.ts";

/** The server's end of a watch over HTTP: sends each change as soon as it happens. */
export class HttpWatch {
  readonly #collection: Collection;
  readonly #request: StoreRequest;
  readonly #response: ServerResponse;
  /** The number of the next change to send. */
  #next: number;
  /** The version behind which it starts. */
  readonly #from: number;

  /** Begins the watch, or says in its only event why not. */
  constructor(collection: Collection, request: StoreRequest, response: ServerResponse) {
    this.#collection = collection;
    this.#request = request;
    this.#response = response;
    response.writeHead(200, { "content-type": "application/json" });
    response.flushHeaders();
    const { resourceVersion, sendInitialEvents } = request.query;
    const isList = sendInitialEvents === "true";
    const { current, oldest } = collection.versions;
    const from = (!isList && Number(resourceVersion)) || current;
    this.#next = collection.firstAfter(from);
    this.#from = from;
    if (from < oldest) {
      const { body } = failure(410, "Expired", tooOld(from));
      this.line(JSON.stringify({ type: "ERROR", object: body }));
      this.end();
      return;
    }
    if (isList) this.#sendAll();
    collection.streams.add(this);
    response.on("close", () => collection.streams.delete(this));
    this.send();
  }

  send(): void {
    const { query, isPartial } = this.#request;
    for (;;) {
      const change = this.#collection.change(this.#next);
      if (change === undefined || change === "expired") return;
      this.#next += 1;
      // As the real one does, also when a restore of etcd has made the versions lower.
      if (change.version <= this.#from) continue;
      if (isSelected(change.object, query)) this.line(this.#collection.eventOf(change, isPartial));
    }
  }

  bookmark(annotations?: JsonObject): void {
    this.line(this.#collection.bookmark(this.#request.isPartial, annotations));
  }

  write(bytes: string | Uint8Array): void {
    this.#response.write(bytes);
  }

  /** Ends as by the server's timeout. */
  end(): void {
    this.#response.end();
  }

  break(): void {
    this.#response.socket?.resetAndDestroy();
  }

  line(text: string): void {
    this.write(`${text}\n`);
  }

  /** A streamed list: every object, and then a bookmark that says so. */
  #sendAll(): void {
    const { query, isPartial } = this.#request;
    for (const each of this.#collection.objects.values()) {
      if (!isSelected(each, query)) continue;
      const object = this.#collection.view(each, isPartial);
      this.line(JSON.stringify({ type: "ADDED", object }));
    }
    this.bookmark({ "k8s.io/initial-events-end": "true" });
  }
}
