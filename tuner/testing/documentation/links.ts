/** Links of Markdown pages, and the anchors that they may lead to. */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'

interface Link {
  /** Path below the root; the page itself for a link to one of its own headings. */
  readonly target: string
  readonly anchor?: string
}

/** Relative links of a page below the root, pictures among them. */
export function readLinks(root: string, page: string): Link[] {
  const text = readFileSync(join(root, page), 'utf8').replaceAll(/^ *```[\s\S]*?^ *```/gm, '')
  return [...text.matchAll(/\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?\)/g)].map(
    ([, path = '', anchor]) => ({
      target: path === '' ? page : normalize(join(dirname(page), path)),
      ...(anchor !== undefined && { anchor }),
    }),
  )
}

/** Links of a page that lead to no file, or to no heading of it. */
export function findBrokenLinks(root: string, page: string): string[] {
  return readLinks(root, page)
    .filter(({ target, anchor }) => {
      const file = join(root, target)
      if (!existsSync(file)) return true
      if (anchor === undefined || statSync(file).isDirectory()) return false
      return !readAnchors(readFileSync(file, 'utf8')).has(anchor)
    })
    .map(({ target, anchor }) => `${page}: ${target}${anchor === undefined ? '' : `#${anchor}`}`)
}

/** Anchors of a page's headings, as GitHub makes them. */
export function readAnchors(markdown: string): Set<string> {
  const anchors = new Set<string>()
  const text = markdown.replaceAll(/^ *```[\s\S]*?^ *```/gm, '')
  for (const [, heading] of text.matchAll(/^#+ +(.*)$/gm)) {
    const slug = heading!
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .trim()
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\p{M}_ -]/gu, '')
      .replaceAll(' ', '-')
    let anchor = slug
    for (let i = 1; anchors.has(anchor); i++) anchor = `${slug}-${i}`
    anchors.add(anchor)
  }
  return anchors
}
