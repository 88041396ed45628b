import { expect, test } from "vitest";
import { DocumentError } from "#lib/parsing/document-error.ts";
import { JsonTextError } from "#lib/parsing/json-text.ts";
import { parseJson, readDocument } from "./document.ts";

const options = { subject: "cannot read it", reason: "InvalidNetworkConfig" } as const;

test("readDocument() and parseJson() keep the cause of their errors", () => {
  expect(() => readDocument({}, options, (fields) => fields.required("type"))).toThrow(
    expect.objectContaining({ code: 7, cause: expect.any(DocumentError) }),
  );
  expect(() => parseJson("{", options.subject)).toThrow(
    expect.objectContaining({ code: 6, cause: expect.any(JsonTextError) }),
  );
});

test("readDocument() does not blame the document for other errors", () => {
  const defect = new TypeError("a defect");
  const read = (): never => {
    throw defect;
  };
  expect(() => readDocument({}, options, read)).toThrow(defect);
});
