import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { parseNetConfList, toJson } from "#cni/conf/conf.ts";
import { formatErrorOutput } from "#cni/plugin/error-output.ts";
import { parsePluginRequest } from "#cni/plugin/parse-request.ts";
import { delCalls } from "#cni/runtime/chain.ts";
import { mutated, validList } from "#cni/testing/arbitrary.ts";
import { configForCall } from "#engine/config.ts";
import { checkNotMetaPlugin } from "#npwg/meta-plugins.ts";
import { jsonTokens, must, refusing, type Target } from "../target.ts";

const runtime = {
  containerId: "c1",
  netns: "/run/netns/c1",
  ifName: "net1",
  cniArgs: [["K8S_POD_NAME", "web"]],
  capabilityArgs: { mac: "02:00:00:00:00:01" },
  searchPath: ["/opt/cni/bin"],
  timeoutMs: 1000,
} as const;

/** A network's configuration, and the one that a runtime hands over on stdin with CNI_ARGS. */
export const conf: Target = {
  maxLength: 140_000,
  inputs: fc.oneof(validList, mutated(validList)).map((list) => JSON.stringify(list)),
  tokens: [
    ...jsonTokens,
    '{"type":"a"},',
    '"plugins":[',
    '"cniVersion":"1.1.0",',
    ";",
    "=",
    "A=b;",
  ],
  read(input) {
    const list = refusing(() => parseNetConfList(input, { source: "fuzz" }));
    if (list !== undefined) {
      refusing(() => checkNotMetaPlugin(list, "fuzz"));
      for (const call of delCalls(list, runtime)) JSON.parse(call.stdin);
      const again = parseNetConfList(toJson(list), { source: "fuzz", unlimited: true });
      // Its JSON has the version that was chosen, and no longer the ones to choose from.
      const { written: _written, ...chosen } = list;
      must(isDeepStrictEqual(again, chosen), "a list that is not the same when it is read again");
    }
    const env = { ...callEnv, CNI_ARGS: input };
    for (const [variables, stdin] of [
      [callEnv, input],
      [env, "{}"],
    ] as const) {
      const request = refusing(() => parsePluginRequest(variables, stdin));
      if (request !== undefined) refusing(() => configForCall({}, request.conf.raw));
    }
    JSON.parse(formatErrorOutput(new Error(input), input));
  },
};

const callEnv = {
  CNI_COMMAND: "ADD",
  CNI_CONTAINERID: "c1",
  CNI_NETNS: "/run/netns/c1",
  CNI_IFNAME: "eth0",
  CNI_PATH: "/opt/cni/bin",
};
