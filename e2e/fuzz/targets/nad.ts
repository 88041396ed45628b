import { CniError } from "#cni/error.ts";
import { nadConf, parseNad } from "#npwg/nad.ts";
import { keptJson } from "../corpus.ts";
import { jsonTokens, refusing, type Target } from "../target.ts";

/** A NetworkAttachmentDefinition, as the API has it, and the configuration in it. */
export const nad: Target = {
  maxLength: 140_000,
  inputs: keptJson("nad"),
  tokens: jsonTokens,
  async read(input) {
    const object = refusing(
      () => JSON.parse(input) as unknown,
      () => true,
    );
    const parsed = refusing(() => parseNad(object, { isManifest: false }));
    if (parsed === undefined) return;
    const noFile = (name: string): Promise<never> =>
      Promise.reject(new CniError("InvalidNetworkConfig", name));
    await nadConf(parsed, noFile).catch((error: unknown) =>
      refusing(() => {
        throw error;
      }),
    );
  },
};
