/** Links of files in the repository, as they are before a release. */
const placeholder = "https://github.com/OWNER/REPOSITORY";

/** Replaces the placeholder in links by the repository, and its main branch by the release's tag. */
export function linkToRelease(
  text: string,
  { version, repository }: { readonly version: string; readonly repository: string },
): string {
  return text
    .replaceAll(`${placeholder}/blob/main/`, `${repository}/blob/v${version}/`)
    .replaceAll(placeholder, repository);
}
