/**
 * The dashboard as one file that needs no server and fetches nothing: the page with its script,
 * style and data inside.
 */
import { createHash } from 'node:crypto'
import type { Assets } from './bundle.ts'
import type { Snapshot } from './data/page-data.ts'

/** Text of a script element: nothing in it may end the element or open a comment. */
const encodeJson = (data: unknown): string =>
  JSON.stringify(data).replace(
    /[<>&\u2028\u2029]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
const encodeScript = (script: string): string => script.replace(/<(?=\/script|!--)/gi, '\\x3c')

/**
 * Renders the whole page. It may run its own script and nothing else: its policy names the script
 * by its hash.
 */
export function renderStandalonePage({ html, script, style }: Assets, snapshot: Snapshot): string {
  const text = encodeScript(script)
  const hash = createHash('sha256').update(text).digest('base64')
  const policy = `default-src 'none'; script-src 'sha256-${hash}'; style-src 'unsafe-inline'; img-src data: blob:`
  return html
    .replace(
      '<meta charset="utf-8">',
      () =>
        `<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="${policy}">`,
    )
    .replace(
      '<link rel="stylesheet" href="/style.css">',
      () => `<style>${style.replace(/<\/style/gi, '<\\/style')}</style>`,
    )
    .replace('<script src="/app.js" defer></script>', '')
    .replace(
      '</body>',
      () =>
        `<script type="application/json" id="snapshot">${encodeJson(snapshot)}</script>\n<script>${text}</script>\n</body>`,
    )
}
