import { defectIn } from "#cni/error.ts";
import { serveRequest } from "#docker/driver/plugin-server.ts";
import type { NetworkDriver } from "#docker/driver/protocol.ts";
import { requestSchemas } from "#docker/driver/requests.ts";
import { parseEndpointOptions } from "#docker/endpoints/endpoint-options.ts";
import { parseNetworkOptions } from "#docker/networks/network-options.ts";
import { noLogger } from "#engine/ports/logger.ts";
import { keptJson } from "../corpus.ts";
import { jsonTokens, must, refusing, type Target } from "../target.ts";

/** Reads what else is in a request, as the driver does before it acts. */
function readOptions(request: { readonly Options?: Readonly<Record<string, unknown>> }): void {
  const { Options = {} } = request;
  for (const read of [parseNetworkOptions, parseEndpointOptions]) {
    refusing(
      () => read(Options),
      (error) => defectIn(error) === undefined,
    );
  }
}

const methods = Object.keys(requestSchemas);
const driver = Object.fromEntries(
  methods.map((method) => [method, async (request: object) => readOptions(request)]),
) as unknown as NetworkDriver;

/** The body of a request of Docker Engine, whatever its method is. */
export const docker: Target = {
  maxLength: 200_000,
  inputs: keptJson("docker"),
  tokens: [...jsonTokens, "plexus.", "10.0.0.0/8", "ingress=1M,", "10G"],
  // Every input is sent to each method.
  maxMs: 100 * methods.length,
  async read(input) {
    for (const method of methods) {
      const request = { method: "POST", url: `/${method}`, body: input };
      const { status } = await serveRequest(request, { driver, logger: noLogger });
      must(status === 200 || status === 400, `${method} is answered with ${status}`);
    }
  },
};
