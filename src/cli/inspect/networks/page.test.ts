import { hash } from "node:crypto";
import { expect, test } from "vitest";
import { run } from "#cli/testing/run.ts";
import { networksPage } from "./page.ts";

const page = networksPage();

test("plexusctl networks --page prints the page without asking plexusd", async () => {
  expect(await run("networks", "--page", "--socket", "/nowhere")).toEqual({
    ...{ code: 0, err: "" },
    out: page,
  });
});

test("the page loads nothing, and runs only its own script", () => {
  expect(page).not.toMatch(
    / (?:src|href|on\w+)=|\burl\(|\bimport\b|\bfetch\b|HTML\b.*[=(]|\beval\b/,
  );
  const [, policy = ""] = /Content-Security-Policy" content="([^"]+)"/.exec(page) ?? [];
  const contents = ["style", "script"].map((tag) => {
    const [, text = ""] = new RegExp(`<${tag}>([\\s\\S]*?)</${tag}>`).exec(page) ?? [];
    return `${tag}-src 'sha256-${hash("sha256", text, "base64")}'`;
  });
  expect(policy.split("; ")).toEqual([
    ...["default-src 'none'", "base-uri 'none'", "form-action 'none'"],
    ...contents,
  ]);
});

test("the place of the data is a separate line", () => {
  expect(page.split("\n").filter((line) => line.includes("@DATA@"))).toEqual(["@DATA@"]);
});
