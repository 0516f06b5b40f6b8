/**
 * Where this server is: at the root of its host, or below a path of a proxy, which the server need
 * not know. The built program is one directory below.
 */

// Not written in one expression: the build takes that for the address of a file.
const program = import.meta.url;

/** The path of the library, with a slash at its end. */
export const home = new URL("..", program).pathname;

/** A path of this server as its clients have it. */
export function below(path: string, base = home): string {
  return base + path.replace(/^\//, "");
}

/**
 * The path of an address of the API as its clients have it. A server that knows the path of its
 * proxy puts it in front itself.
 */
export function addressed(address: string, base = home): string {
  return address.startsWith(base) ? address : below(address, base);
}
