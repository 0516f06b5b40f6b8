/**
 * Builds elements. Styles are set by class only: the content security policy forbids style
 * attributes.
 */

export type Child = Node | string | null | undefined | false;
type Listener = (event: never) => void;
export type Attributes = Record<string, string | number | boolean | null | undefined | Listener>;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function")
      element.addEventListener(name.slice(2), value as unknown as EventListener);
    else if (name.startsWith("aria-") && typeof value === "boolean")
      element.setAttribute(name, String(value));
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined)
      element.setAttribute(name, String(value));
  }
  element.append(
    ...children.filter(
      (child): child is Node | string => child !== null && child !== undefined && child !== false,
    ),
  );
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

export function svg(
  tag: string,
  attributes: Record<string, string | number> = {},
  ...children: Node[]
): SVGElement {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

/** Sets text only when it changed, so that screen readers and the layout are left alone. */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Replaces the content of `place` only if it differs: a new element is read out again by a screen
 * reader and loses the focus. What was opened stays open.
 */
export function replaceIfOther(place: Element, content: Element[]): void {
  const opened = [...place.querySelectorAll("details")].map((details) => details.open);
  const details = content.flatMap((element) => [...element.querySelectorAll("details")]);
  for (const [i, element] of details.entries()) element.open = opened[i] ?? element.open;
  if (
    place.children.length === content.length &&
    content.every((element, i) => place.children[i]?.isEqualNode(element))
  )
    return;
  place.replaceChildren(...content);
}

export function wait(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal.addEventListener("abort", stop, { once: true });
  });
}
