type WithoutUndefined<T> = {
  [K in keyof T as undefined extends T[K] ? never : K]: T[K];
} & { [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined> };

/** A copy of an object without the members that are undefined; null, "" and 0 stay. */
export function omitUndefined<T extends object>(object: T): WithoutUndefined<T> {
  const members = Object.entries(object).filter(([, value]) => value !== undefined);
  return Object.fromEntries(members) as WithoutUndefined<T>;
}
