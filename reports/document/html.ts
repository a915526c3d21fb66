/**
 * Blocks as one self-contained HTML file: no scripts, nothing fetched, readable in light, dark and
 * on paper.
 */
import { writeSharedStyle } from '../style.ts'
import type { Block } from './blocks.ts'

/** Escapes text for HTML content and quoted attributes. Control characters become blanks. */
export const escapeHtml = (text: string): string =>
  text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`).replace(/(?![\t\n\r])\p{Cc}/gu, ' ')

const style = `${writeSharedStyle()}
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; background: var(--surface); color: var(--text) }
h1, h2, p, li, summary { overflow-wrap: anywhere } h1 { font-size: 1.6rem } h2 { font-size: 1.25rem; margin-top: 2.5rem; border-bottom: 1px solid var(--line) } h3 { font-size: 1rem }
p.strong { font-size: 1.15rem; font-weight: 600; border-left: 4px solid var(--accent); padding-left: .8rem }
table { font-size: .875rem }
pre { overflow-x: auto; background: var(--ground); padding: .8rem; font-size: .8rem } figure { margin: 1rem 0; background: #fff; overflow-x: auto }
figure svg { display: block; max-width: 100%; height: auto }
summary { cursor: pointer; font-weight: 600 } details { margin: 1rem 0 }
@media print { details > * { display: block } body { max-width: none; font-size: 12px } h1, h2, h3, summary, p:has(+ .wide), p:has(+ figure) { break-after: avoid }
.wide, pre, figure { overflow: visible } pre { white-space: pre-wrap; overflow-wrap: anywhere } table { font-size: .7rem }
details::details-content { content-visibility: visible } figure svg { max-height: 110mm } }
`

/** A whole page. */
export function toHtml(title: string, blocks: readonly Block[]): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>${escapeHtml(title)}</title>
<style>${style}</style>
</head>
<body>
<main>
${blocks.map(renderBlock).join('\n')}
</main>
</body>
</html>
`
}

function renderBlock(block: Block): string {
  switch (block.kind) {
    case 'heading':
      return `<h${block.level}>${escapeHtml(block.text)}</h${block.level}>`
    case 'paragraph':
      return `<p${block.strong ? ' class="strong"' : ''}>${escapeHtml(block.text)}</p>`
    case 'list':
      return `<ul>${block.items.map((item) => `<li>${escapeHtml(item)}</li>`).join('')}</ul>`
    case 'code':
      return `<pre>${escapeHtml(block.text)}</pre>`
    case 'chart':
      return `<figure role="img" aria-label="${escapeHtml(block.alt)}">${block.svg}</figure>`
    case 'details':
      return `<details><summary>${escapeHtml(block.summary)}</summary>\n${block.blocks.map(renderBlock).join('\n')}\n</details>`
    case 'table': {
      const cell = (tag: 'th' | 'td') => (text: string, i: number) =>
        `<${tag}${block.numeric?.includes(i) ? ' class="n"' : ''}${tag === 'th' ? ' scope="col"' : ''}>${escapeHtml(text)}</${tag}>`
      const rows = block.rows.map((row) => `<tr>${row.map(cell('td')).join('')}</tr>`)
      return `<div class="wide"><table><thead><tr>${block.head.map(cell('th')).join('')}</tr></thead><tbody>\n${rows.join('\n')}\n</tbody></table></div>`
    }
  }
}
