/** A document as plain blocks, written once and rendered as terminal text, Markdown or HTML. */

export type Block =
  | { readonly kind: 'heading'; readonly level: 1 | 2 | 3; readonly text: string }
  | { readonly kind: 'paragraph'; readonly text: string; readonly strong?: boolean }
  | { readonly kind: 'list'; readonly items: readonly string[] }
  /** Numbers are right-aligned: columns named in `numeric` by index. */
  | {
      readonly kind: 'table'
      readonly head: readonly string[]
      readonly rows: readonly (readonly string[])[]
      readonly numeric?: readonly number[]
    }
  | { readonly kind: 'code'; readonly text: string }
  /** `svg` is trusted: its renderer escapes texts. `alt` describes the chart. */
  | { readonly kind: 'chart'; readonly svg: string; readonly alt: string }
  /** Collapsed in HTML. */
  | { readonly kind: 'details'; readonly summary: string; readonly blocks: readonly Block[] }

export const heading = (level: 1 | 2 | 3, text: string): Block => ({ kind: 'heading', level, text })
export const paragraph = (text: string): Block => ({ kind: 'paragraph', text })
export const list = (items: readonly string[]): Block[] =>
  items.length > 0 ? [{ kind: 'list', items }] : []
export const table = (
  head: readonly string[],
  rows: readonly (readonly string[])[],
  numeric: readonly number[] = [],
): Block[] => (rows.length > 0 ? [{ kind: 'table', head, rows, numeric }] : [])
