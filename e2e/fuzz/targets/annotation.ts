import { CniError } from "#cni/error.ts";
import { parseDefaultNetworkSelection, parseNetworkSelections } from "#npwg/selection/selection.ts";
import { keptJson } from "../corpus.ts";
import { jsonTokens, must, refusing, type Target } from "../target.ts";

const isRefusal = (error: unknown): boolean => error instanceof CniError && error.code === 100;

/** The annotations of a pod, in both formats. */
export const annotation: Target = {
  maxLength: 66_000,
  inputs: keptJson("annotation"),
  tokens: [...jsonTokens, "/", "@", ",", "a,", "\u0085", "\ufeff", '{"name":"a"},'],
  read(input) {
    const options = { podNamespace: "default", onWarning: checkWarning };
    const selections = refusing(() => parseNetworkSelections(input, options), isRefusal);
    for (const selection of selections ?? [])
      must(selection.name !== "", "a network without a name");
    const own = { defaultNamespace: "kube-system" };
    refusing(() => parseDefaultNetworkSelection(input, own), isRefusal);
  },
};

function checkWarning(message: string): void {
  must(message.length < 500, `a warning of ${message.length} characters`);
}
