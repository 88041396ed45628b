import manifest from "../../package.json" with { type: "json" };

/** The URL of the repository. Where other files name it, `make docs REPOSITORY=URL` replaces it. */
export const { repository } = manifest;

/** A text with another repository: in links, in the names of image and chart, which are in lower case, of teams and of the action. */
export function withRepository(text: string, to: string, from = repository): string {
  const [fromPath, toPath] = [new URL(from).pathname, new URL(to).pathname];
  const inRegistry = `ghcr.io${toPath}`.toLowerCase();
  const teamsOf = (path: string): string => `@${path.split("/")[1]}/plexus-`;
  return text
    .replaceAll(from, to)
    .replaceAll(`ghcr.io${fromPath}`, inRegistry)
    .replaceAll(`ghcr.io${fromPath.toLowerCase()}`, inRegistry)
    .replaceAll(`uses: ${fromPath.slice(1)}@`, `uses: ${toPath.slice(1)}@`)
    .replaceAll(teamsOf(fromPath), teamsOf(toPath));
}

/** A text of a release: links to its repository lead to the release's tag instead of the main branch. */
export function linkToRelease(
  text: string,
  { version, repository: to }: { readonly version: string; readonly repository: string },
): string {
  return withRepository(text, to)
    .replaceAll(`${to}/blob/main/`, `${to}/blob/v${version}/`)
    .replaceAll(`${to}/raw/main/`, `${to}/raw/v${version}/`);
}
