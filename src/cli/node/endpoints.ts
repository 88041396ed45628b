import { hostname } from "node:os";
import { command, ExitCode } from "#cli/command.ts";
import { textFlag } from "#cli/flags.ts";
import { ApiClient } from "#kube/api/client.ts";
import { inClusterCredentials } from "#kube/api/in-cluster.ts";
import { createLogger } from "#serving/logger.ts";

export const endpointsCommand = command({
  name: "endpoints",
  summary: "write EndpointSlices with the pods' addresses of other networks until it is stopped",
  description: `What deploy/components/endpoints runs, for Services with the annotations plexus.dev/network and
plexus.dev/selector. Of several processes, the one with the Lease plexus-endpoints writes.`,
  flags: {
    namespace: textFlag("NAMESPACE", "of the Lease", "kube-system"),
    host: textFlag("HOST", "of the API server; with the pod's service account"),
    port: textFlag("PORT", "of the API server", "443"),
  },
  stopMs: 5000,
  async run({ flags: { namespace, host, port } }, _output, stopping) {
    // The other commands do not load the watches.
    const { EndpointsController } = await import("#endpoints/controller.ts");
    const client = new ApiClient(inClusterCredentials({ host, port }));
    const options = { client, namespace, identity: hostname(), logger: createLogger("info") };
    await new EndpointsController(options).run(stopping);
    client.close();
    return ExitCode.Done;
  },
});
