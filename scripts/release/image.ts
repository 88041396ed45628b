import { readFileSync } from "node:fs";
import { parse, stringify } from "yaml";

/** An image in kustomize's fields. */
interface Image {
  readonly newName: string;
  readonly newTag?: string;
  readonly digest?: string;
}

const kustomization = new URL("../../deploy/image/kustomization.yaml", import.meta.url);

/** The reference of the image that deploy/image names: `localhost/plexus:dev` in a checkout. */
export function deployImage(): string {
  const { images } = parse(readFileSync(kustomization, "utf8")) as { images: readonly [Image] };
  return referenceOf(images[0]);
}

/** The reference as kustomize builds it: without the tag if there is a digest. @throws Error as {@link imageKustomization} does */
export function plainReference(reference: string): string {
  return referenceOf(parseReference(reference));
}

function referenceOf({ newName, newTag, digest }: Image): string {
  return digest === undefined ? `${newName}:${newTag}` : `${newName}@${digest}`;
}

/** The text of deploy/image/kustomization.yaml for another image. @throws Error when `reference` has neither tag nor digest */
export function imageKustomization(reference: string): string {
  const image = { name: "plexus", ...parseReference(reference) };
  const head = { apiVersion: "kustomize.config.k8s.io/v1alpha1", kind: "Component" };
  return stringify({ ...head, images: [image] });
}

/** `NAME:TAG`, `NAME@DIGEST`, or both; then the digest counts. The name may have a registry with a port. */
const referencePattern = /^([^@]+?)(?::([\w][\w.-]{0,127}))?(?:@(sha256:[0-9a-f]{64}))?$/;

function parseReference(reference: string): Image {
  const [, newName, newTag, digest] = referencePattern.exec(reference) ?? [];
  if (newName !== undefined && digest !== undefined) return { newName, digest };
  if (newName !== undefined && newTag !== undefined) return { newName, newTag };
  throw new Error(`"${reference}" does not name an image with a tag or a digest`);
}
