/** Blocks as terminal text and as Markdown. */
import type { Block } from './blocks.ts'

/** Control characters, which could steer a terminal, and line ends as blanks. */
const cleanText = (text: string): string => text.replace(/[\p{Cc}\u2028\u2029]+/gu, ' ')

/** Plain text; charts are left out, details are shown whole. */
export function toText(blocks: readonly Block[]): string {
  return `${blocks.map(renderText).filter(Boolean).join('\n\n')}\n`
}

function renderText(block: Block): string {
  switch (block.kind) {
    case 'heading':
      return block.level === 1
        ? `${cleanText(block.text)}\n${'='.repeat(block.text.length)}`
        : cleanText(block.text)
    case 'paragraph':
      return cleanText(block.text)
    case 'list':
      return block.items.map((item) => `- ${cleanText(item)}`).join('\n')
    case 'code':
      return block.text
        .split('\n')
        .map((line) => `  ${cleanText(line)}`)
        .join('\n')
    case 'chart':
      return ''
    case 'details':
      return [cleanText(block.summary), toText(block.blocks).trimEnd()].join('\n\n')
    case 'table': {
      const rows = [block.head, ...block.rows].map((row) => row.map(cleanText))
      const widths = block.head.map((_, i) => Math.max(...rows.map((row) => (row[i] ?? '').length)))
      const pad = (cell: string, i: number) =>
        block.numeric?.includes(i) ? cell.padStart(widths[i]!) : cell.padEnd(widths[i]!)
      return rows.map((row) => row.map(pad).join('  ').trimEnd()).join('\n')
    }
  }
}

/** GitHub's Markdown; texts are escaped, charts are named in words. */
export function toMarkdown(blocks: readonly Block[]): string {
  return `${blocks.map(renderMarkdown).filter(Boolean).join('\n\n')}\n`
}

/** Markup, HTML and table bars lose their meaning. */
const escapeMarkdown = (text: string): string =>
  cleanText(text)
    .replace(/[\\`*_{}[\]<>#|~!]/g, '\\$&')
    .replace(/&/g, '&amp;')
    .replace(/^([-+]|\d+\.)(\s)/, '\\$1$2')

function renderMarkdown(block: Block): string {
  switch (block.kind) {
    case 'heading':
      return `${'#'.repeat(block.level)} ${escapeMarkdown(block.text)}`
    case 'paragraph':
      return block.strong ? `**${escapeMarkdown(block.text)}**` : escapeMarkdown(block.text)
    case 'list':
      return block.items.map((item) => `- ${escapeMarkdown(item)}`).join('\n')
    case 'code': {
      const longest = Math.max(2, ...[...block.text.matchAll(/`+/g)].map(([run]) => run.length))
      const fence = '`'.repeat(longest + 1)
      return `${fence}\n${block.text.trimEnd().split('\n').map(cleanText).join('\n')}\n${fence}`
    }
    case 'chart':
      return `*${escapeMarkdown(block.alt)}*`
    case 'details':
      return `**${escapeMarkdown(block.summary)}**\n\n${toMarkdown(block.blocks).trimEnd()}`
    case 'table': {
      const row = (cells: readonly string[]) => `| ${cells.map(escapeMarkdown).join(' | ')} |`
      const rule = block.head.map((_, i) => (block.numeric?.includes(i) ? '---:' : '---'))
      return [row(block.head), `| ${rule.join(' | ')} |`, ...block.rows.map(row)].join('\n')
    }
  }
}
