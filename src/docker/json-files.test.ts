import { expect, test } from "vitest";
import * as z from "zod";
import { FakeLogger } from "#engine/testing/fake-logger.ts";
import { isJsonObject, type JsonObject, parseExactly } from "#lib/json.ts";
import { temporaryDirectory } from "#lib/testing/temporary-directory.ts";
import { JsonFiles } from "./json-files.ts";

test("JsonFiles keeps the digits of long integers in a configuration over a restart", async () => {
  const dir = await temporaryDirectory();
  const schema = z.object({ conf: z.custom<JsonObject>(isJsonObject) });
  const options = { dir: dir, schema, logger: new FakeLogger() };
  const text = '{"conf":{"id":9007199254740993}}';
  const files = await JsonFiles.open(options);
  await files.put("n1", schema.parse(parseExactly(text)));
  expect(JSON.stringify((await JsonFiles.open(options)).get("n1"))).toBe(text);
});
