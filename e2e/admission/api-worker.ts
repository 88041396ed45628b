import { readFile } from "node:fs/promises";
import { Agent, request } from "node:https";

/** What the other process wants sent to the API server, and what it answers. */
export interface Exchange {
  readonly id: number;
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** An answer to an {@link Exchange}, and how long it took. */
export interface ExchangeAnswer {
  readonly id: number;
  readonly status: number;
  readonly body: string;
  readonly warnings: string;
  readonly milliseconds: number;
}

const [, , server = "", directory = ""] = process.argv;
const [ca, cert, key] = await Promise.all(
  ["ca.crt", "e2e-admin.crt", "e2e-admin.key"].map((name) => readFile(`${directory}/${name}`)),
);
const agent = new Agent({ ca, cert, key, keepAlive: true });

process.on("message", ({ id, method, path, headers, body }: Exchange) => {
  const startedAt = performance.now();
  const sent = request(`${server}${path}`, { method, headers, agent }, async (response) => {
    const text = Buffer.concat(await response.toArray()).toString();
    const milliseconds = performance.now() - startedAt;
    const warnings = response.headers.warning ?? "";
    const answer = { id, status: response.statusCode ?? 0, body: text, warnings, milliseconds };
    process.send?.(answer satisfies ExchangeAnswer);
  });
  sent.end(body);
});
process.on("disconnect", () => process.exit());
process.send?.("ready");
