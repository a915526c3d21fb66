/**
 * All glyphs and colours of the terminal, so that one module handles NO_COLOR and terminals without
 * UTF-8.
 */
export interface Style {
  readonly unicode: boolean
  readonly color: boolean
}

const glyphs = {
  done: ['✓', '+'],
  infeasible: ['✗', 'x'],
  failed: ['!', '!'],
  best: ['★', '*'],
  running: ['●', 'o'],
  bullet: ['·', '-'],
  point: ['•', 'o'],
  front: ['◆', '#'],
  horizontal: ['─', '-'],
  vertical: ['│', '|'],
  corner: ['└', '+'],
  ellipsis: ['…', '...'],
  times: ['×', 'x'],
  full: ['█', '#'],
  empty: ['░', '.'],
} as const satisfies Record<string, readonly [string, string]>
type Glyph = keyof typeof glyphs

export const glyph = (name: Glyph, style: Style): string => glyphs[name][style.unicode ? 0 : 1]

const codes = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 } as const
export type Paint = keyof typeof codes

export const paint = (text: string, paints: Paint, style: Style): string =>
  style.color ? `\u001b[${codes[paints]}m${text}\u001b[0m` : text

/**
 * Detects colour and UTF-8 support by terminal, locale, NO_COLOR (no-color.org), FORCE_COLOR, CI
 * and TERM=dumb.
 */
export function detectStyle(stream: { isTTY?: boolean }, env: NodeJS.ProcessEnv): Style {
  const forced =
    env.FORCE_COLOR !== undefined && env.FORCE_COLOR !== '0' && env.FORCE_COLOR !== 'false'
  const color = env.NO_COLOR
    ? false
    : forced || (stream.isTTY === true && env.TERM !== 'dumb' && env.FORCE_COLOR !== '0' && !env.CI)
  const locale = env.LC_ALL || env.LC_CTYPE || env.LANG || ''
  return {
    color,
    unicode:
      /utf-?8/i.test(locale) || (locale === '' && env.TERM !== 'linux' && env.TERM !== 'dumb'),
  }
}
