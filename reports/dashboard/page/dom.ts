/**
 * Elements from code alone: every text becomes a text node, so nothing that a model name or a log
 * holds can become markup.
 */

export type Child = Node | string | number | false | undefined | readonly Child[]
type Attributes = Readonly<Record<string, string | number | boolean | undefined>>
interface Options {
  readonly class?: string
  readonly attributes?: Attributes
  readonly on?: {
    readonly [K in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[K]) => void
  }
}

/** An element with attributes, listeners and children. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  options: Options = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag)
  if (options.class) element.className = options.class
  setAttributes(element, options.attributes ?? {})
  for (const [name, listener] of Object.entries(options.on ?? {}))
    element.addEventListener(name, listener as EventListener)
  element.append(...flatten(children))
  return element
}

/** `false` and `undefined` remove an attribute, `true` sets it empty. */
export function setAttributes(element: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) element.removeAttribute(name)
    else element.setAttribute(name, value === true ? '' : String(value))
  }
}

/** Replaces what an element holds. */
export function fill(element: Element, ...children: Child[]): void {
  element.replaceChildren(...flatten(children))
}

function flatten(children: readonly Child[]): (Node | string)[] {
  return children.flatMap((child): (Node | string)[] => {
    if (child === false || child === undefined) return []
    if (typeof child === 'number') return [String(child)]
    return typeof child === 'string' || child instanceof Node ? [child] : flatten(child)
  })
}

/** A table; columns in `numeric` are right-aligned. */
export function table(
  head: readonly string[],
  rows: readonly (readonly Child[])[],
  numeric: readonly number[] = [],
  caption?: string,
): HTMLElement {
  const alignment = (i: number) => (numeric.includes(i) ? 'n' : undefined)
  return h(
    'div',
    { class: 'wide', attributes: { tabindex: 0, role: 'group', 'aria-label': caption } },
    h(
      'table',
      {},
      caption !== undefined && h('caption', { class: 'unseen' }, caption),
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          ...head.map((text, i) =>
            h('th', { class: alignment(i), attributes: { scope: 'col' } }, text),
          ),
        ),
      ),
      h(
        'tbody',
        {},
        ...rows.map((row) =>
          h('tr', {}, ...row.map((cell, i) => h('td', { class: alignment(i) }, cell))),
        ),
      ),
    ),
  )
}

/** Saves text as a file. */
export function download(name: string, type: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }))
  const link = h('a', { attributes: { href: url, download: name } })
  link.click()
  setTimeout(() => URL.revokeObjectURL(url), 10_000)
}

/** A word in a frame, with a button that takes it off where that can be done. */
export const tagOf = (
  text: string,
  off: false | { readonly label: string; remove(): void } = false,
): HTMLElement =>
  h(
    'span',
    { class: 'tag' },
    text,
    off &&
      h(
        'button',
        {
          class: 'quiet',
          attributes: { type: 'button', 'aria-label': off.label },
          on: { click: off.remove },
        },
        '×',
      ),
  )

/** A labelled form field. */
export function field(label: string, input: HTMLElement, unit?: string | HTMLElement): HTMLElement {
  return h(
    'label',
    { class: 'field' },
    h('span', {}, label),
    h('span', { class: 'input' }, input, unit !== undefined && h('small', {}, unit)),
  )
}
